/*
 * pump.h - what is inside of a runner's line, for its own files: the frames that come and go, and
 * the line's end. The pump is a thread of the line. It reads what the guest sends, gives each frame
 * to the channel (channel.h) that it is for, and flushes what the outbox could not send at once.
 *
 * Thread contract: `mu` guards what is below it; all functions may be called by any thread.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "guestlink/line/line.h"
#include "proto/outbox.h"
#include "util/thread/lock.h"
#include "wire/wire.h"

enum { LINE_BUCKETS = 64 };

struct channel;

struct line {
	struct guest base; /* first */
	int fd;
	struct op pump_op;
	pthread_t pump;
	bool pump_ended; /* and was joined; the owner's */
	struct line_spill spill;
	_Atomic int64_t heard_ns;

	struct buf in; /* the pump's alone: bytes that are no whole frame yet */
	size_t chunk;  /* the pump's alone: how much it reads at once */

	double patience;          /* seconds that the guest may be silent; 0: no limit */
	unsigned silent;          /* the pump's alone: how many looks in a row found silence */
	int64_t look_ns;          /* the pump's alone: when it looks again */
	_Atomic int64_t still_ns; /* since when the VM stands still, so it may be silent; or 0 */
	_Atomic int64_t stood_ns; /* how long it stood still before that */
	_Atomic uint32_t asked;   /* how many answers to PING may come */

	struct outbox out;

	struct lock mu;
	struct channel *bucket[LINE_BUCKETS];
	uint32_t last_id, channels;
	uint64_t stray, stray_max; /* bytes that came for operations that were over; their limit */
	_Atomic bool failed;       /* changes under mu, is read without */
	struct err why;
};

static inline struct line *line_of(struct guest *g)
{
	return (struct line *)g;
}

/* After the greeting: line->in has what came behind it. */
int pump_start(struct line *l, struct err *e);
/* For the pump, and for tests without one: gives every whole frame of line->in to its channel. -1:
 * the guest broke the protocol. */
int pump_route(struct line *l, struct err *e);

/* Fails the line for good: every operation on it fails with this reason. Only the first counts. */
void line_end(struct line *l, const struct err *why);
/* Returns -1 with the reason for which the line has failed. */
int line_why(struct line *l, struct err *e);
/* Sends one frame. A failure other than the op's own fails the line. */
int line_send(const struct op *op, struct line *l, const struct wire_msg *msg, struct bytes body,
	struct err *e);
/* Returns -1 with what the guest did wrong. */
int line_blame(struct err *e, const char *what);
