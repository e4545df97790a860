/*
 * outbox.h - sends frames to a stream socket from many threads. A frame goes out at once if no
 * other waits; bytes that the socket does not take are kept and flushed later. So a sender that
 * gives up never leaves half a frame behind, and the others go on.
 */
#pragma once

#include "util/buf.h"
#include "util/thread/op.h"
#include "util/thread/lock.h"

struct outbox {
	int fd, quit;     /* borrowed. quit: readable when senders shall give up; -1: never */
	int wake;         /* eventfd, written when bytes were left for outbox_flush */
	const char *peer; /* names the other side in messages: "the guest", "the client" */
	struct lock mu;
	struct buf waiting;
	size_t begun; /* the first bytes of waiting, if they end a frame that was sent in part */
	bool closed;
};

int outbox_init(struct outbox *o, int fd, int quit, const char *peer, struct err *e);
void outbox_done(struct outbox *o); /* also on a zeroed struct */

/* Sends or queues one frame; waits while too much is queued. ERR_TIMEOUT, ERR_CANCELLED: from op,
 * and nothing was queued. After any other error the socket must not be used any more. */
int outbox_send(
	const struct op *op, struct outbox *o, struct bytes head, struct bytes body, struct err *e);
/* When it returns, nothing more is sent: what was not sent yet is lost, and senders fail. */
void outbox_close(struct outbox *o);
/* After outbox_close: the rest of a frame that was sent in part. Whoever uses the socket next has
 * to send it first, or the peer would take what comes for that rest. */
struct bytes outbox_rest(const struct outbox *o);
/* Resets wake and sends what the socket takes now; 1 if more is left. */
int outbox_flush(struct outbox *o, struct err *e);
