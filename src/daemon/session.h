/*
 * session.h - one client's connection. Its thread reads frames and hands them to the requests they
 * belong to; each request runs on a thread of its own and answers through the session's outbox.
 */
#pragma once

#include "daemon/daemon.h"
#include "proto/outbox.h"
#include "util/inbox.h"

struct request;

struct session {
	struct daemon *daemon;
	uint64_t lease; /* names what belongs to this connection */
	int fd;
	int peer_pid;
	struct op op; /* cancelled when the connection or the daemon ends */
	struct outbox out;
	bool greeted;
	bool spare;          /* beyond the limit: good for stopping the daemon only */
	int64_t received_ns; /* when bytes came last; the thread's own */

	pthread_mutex_t mu;
	struct request *requests; /* open ones */
	unsigned n_requests;
	int idle_fd; /* eventfd: rung when the last request has ended */

	struct session *next; /* in the daemon's list */
};

/* Starts the thread; takes fd in any case. A spare one hangs up on whoever does not say at once
 * that it is urgent. */
int session_start(struct daemon *d, int fd, bool spare, struct err *e);

/* Sends a JSON message (stolen) with a blob. For requests. */
int session_send(
	struct session *s, const struct op *op, json_t *msg, struct bytes blob, struct err *e);
/* The request has sent its last frame: it is no longer open. */
void session_request_ended(struct session *s, struct request *rq);
