/*
 * session.h - one client's connection. The session's thread reads frames and hands them to the
 * requests that they belong to. Each request runs on a thread of its own and answers through the
 * session's outbox.
 *
 * Thread contract: session_start is for the thread that accepts connections, the rest for the
 * threads of requests. mu is an outer lock: inboxes are filled while it is held.
 */
#pragma once

#include "daemon/daemon.h"
#include "proto/outbox.h"
#include "util/thread/inbox.h"
#include "util/thread/lock.h"

struct request;

struct session {
	struct daemon *daemon;
	uint64_t lease; /* the number by which sandboxes belong to this connection */
	int fd;
	int peer_pid;
	struct op op; /* cancelled when the connection or the daemon ends */
	struct outbox out;
	bool greeted;
	char person[TOUCH_BY_SIZE]; /* what a person acts by over this connection; "": a
				     * program acts */
	bool spare; /* it is beyond the limit of connections: it can stop the daemon only */
	int64_t received_ns; /* when bytes came last; the session's thread's alone */

	struct lock mu;
	struct request *requests; /* those that have not sent their last frame */
	unsigned n_requests;
	int idle_fd; /* eventfd: rung when the last request has ended */

	struct session *next; /* in the daemon's list */
};

/* Starts the session's thread; takes fd in any case. A spare session hangs up on a client that does
 * not say at once that it is urgent. */
int session_start(struct daemon *d, int fd, bool spare, struct err *e);

/* Sends a JSON message with a blob; takes msg, which may be NULL: then memory has run out. */
int session_send(
	struct session *s, const struct op *op, json_t *msg, struct bytes blob, struct err *e);
/* The request has sent its last frame: it is no longer open. */
void session_request_ended(struct session *s, struct request *rq);
