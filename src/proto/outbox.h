/*
 * outbox.h - frames on their way to a stream socket, from many threads. A frame goes out at once if
 * nothing waits before it; what the socket does not take is kept and flushed later. So a sender
 * that gives up never leaves half a frame behind, and the others go on.
 */
#pragma once

#include <pthread.h>

#include "util/buf.h"
#include "util/op.h"

struct outbox {
	int fd, quit;     /* borrowed; quit: readable when senders shall give up; -1: never */
	int wake;         /* eventfd, rung when bytes were left for outbox_flush */
	const char *peer; /* "the guest", "the client": for messages */
	pthread_mutex_t mu;
	struct buf waiting;
};

int outbox_init(struct outbox *o, int fd, int quit, const char *peer, struct err *e);
void outbox_done(struct outbox *o); /* fine on zeroes */

/*
 * Queues one frame, waiting for room if too much is queued. ERR_TIMEOUT, ERR_CANCELLED: op's, and
 * nothing was queued. Any other error: the socket is of no use any more.
 */
int outbox_send(
	const struct op *op, struct outbox *o, struct bytes head, struct bytes body, struct err *e);
/* Silences wake and sends what the socket takes now; 1 if more is left. */
int outbox_flush(struct outbox *o, struct err *e);
