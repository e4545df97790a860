/*
 * channel.h - one operation's end of a runner's line. A channel belongs to the thread of its
 * operation; the line's pump fills it from behind, within fixed bounds: WIRE_WINDOW bytes of data,
 * one final message.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "guest/line.h"
#include "guest/wire.h"

struct channel;

/* What the guest may send here; anything else breaks the protocol. */
struct channel_rules {
	enum wire_type end; /* WIRE_EXIT or WIRE_DONE */
	unsigned streams;   /* bits 1 << enum wire_stream */
	bool input;         /* it may give credit */
};

struct channel_end {
	struct wire_msg msg;
	char text[256]; /* the body, escaped */
};

/* What has come since the last look. Streams keep their order, but not between each other. */
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

/*
 * Queues one frame of this channel. On failure nothing of it was queued. DATA counts against
 * channel_room().
 */
int channel_send(const struct op *op, struct channel *c, struct wire_msg msg, struct bytes body,
	struct err *e);
/* How much DATA the guest is ready to take. */
size_t channel_room(struct channel *c);
/* Tells the guest, at a suitable moment, that n more bytes of its data have been consumed. */
int channel_consumed(const struct op *op, struct channel *c, size_t n, struct err *e);

/* Readable when there may be news. */
int channel_fd(const struct channel *c);
/* Fails when the line has failed, unless the operation had ended before. */
int channel_take(struct channel *c, struct channel_news *ret, struct err *e);
/* For rules that only the operation knows: fails the line, and e says so. Returns -1. */
int channel_blame(struct channel *c, const char *what, struct err *e);
