/*
 * channel.h - one operation on a runner's line: what it sends, and what the guest sends to it.
 *
 * Thread contract: a channel belongs to the thread of its operation. The line's pump adds to it
 * what arrives, within fixed bounds: WIRE_WINDOW bytes of data, one final message. A frame that
 * brings nothing breaks the protocol, as no bound would end a flood of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "guestlink/line/line.h"
#include "wire/frame.h"
#include "wire/wire.h"

struct channel;
struct line;

/* What the guest may send for this operation; anything else breaks the protocol. */
struct channel_rules {
	enum wire_type end; /* WIRE_EXIT or WIRE_DONE */
	unsigned streams;   /* bits 1 << enum wire_stream */
	bool input;         /* the operation sends data, for which the guest gives credit */
};

struct channel_end {
	struct wire_msg msg;
	char text[256]; /* the body, escaped */
};

/* What has arrived since the operation last looked. Within a stream, data is in order. */
struct channel_news {
	struct buf data[WIRE_BODY + 1]; /* by stream */
	bool ended;
	struct channel_end end;
};
void channel_news_free(struct channel_news *news);
#define auto_channel_news __attribute__((cleanup(channel_news_free)))

int channel_open(
	struct guest *g, const struct channel_rules *rules, struct channel **ret, struct err *e);
void channel_close(struct channel *c); /* NULL is fine */
static inline void auto_channelp(struct channel **c)
{
	channel_close(*c);
}
#define auto_channel __attribute__((cleanup(auto_channelp)))

/* Queues one frame. On failure nothing of it was queued. DATA counts against channel_room(). */
int channel_send(const struct op *op, struct channel *c, struct wire_msg msg, struct bytes body,
	struct err *e);
/* How many bytes of DATA the guest is ready to take. */
size_t channel_room(struct channel *c);
/* n more bytes of the guest's data have been consumed. Tells the guest when that has become a good
 * part of the window. */
int channel_consumed(const struct op *op, struct channel *c, size_t n, struct err *e);

/* How long the VM has stood still since the line was opened. */
int64_t channel_stood_ns(const struct channel *c);
/* Readable when there may be news. */
int channel_fd(const struct channel *c);
/* Fails when the line has failed, unless the operation had ended before. */
int channel_take(struct channel *c, struct channel_news *ret, struct err *e);
/* For rules that only the operation knows: the guest broke one. Fails the line; returns -1. */
int channel_blame(struct channel *c, const char *what, struct err *e);

/* For the pump: gives a frame to the channel that it is for. -1: the guest broke the protocol. */
int channel_route(struct line *l, const struct frame *frame, struct err *e);
/* For the line's end, with its lock held: wakes every operation. */
void channels_ring_locked(struct line *l);
