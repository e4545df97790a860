/*
 * line.h - the runner's end of the wire: bytes in and out, cut into frames (guest/wire.h). Knows
 * nothing of what the messages mean, but for HELLO: until one has come, and again after anything
 * that is not a proper frame, everything else is skipped.
 */
#pragma once

#include <stdbool.h>

#include "guest/armour.h"
#include "guest/wire.h"

enum {
	LINE_ROOM = 192 * 1024,  /* DATA is made only while less than this waits to be sent */
	LINE_FULL = 1024 * 1024, /* and nothing is read from the host while this much does */
};

struct line_bytes {
	uint8_t *p;
	size_t start, len, cap;
};

/* The text on a terminal in between (guest/armour.h). */
struct armoured {
	struct armour_reader reader;
	uint16_t next; /* number of the next line to send */
	char text[ARMOUR_LINE_MAX];
	size_t at, len; /* of text: what is not sent yet */
};

struct line {
	int in, out;
	bool is_port; /* a device: the host may hang up and come back */
	bool linger;  /* after the end of the line, until background processes have ended */
	bool synced;
	struct armoured *armoured; /* NULL: bytes go as they are */
	struct line_bytes rx, tx;
	size_t frame; /* where in tx the frame of line_begin starts, counted from tx.start */
};

/*
 * where: "-" for stdin and stdout, a path, or the name of a virtio-serial port, which is waited for
 * a few seconds. 0 or an errno; EBUSY if another process has it.
 */
int line_open(struct line *l, const char *where);
/* A plain serial line must pass bytes through untouched; anything else stays as it is. */
void line_make_raw(int fd);
/* From now on in armour. 0 or an errno. */
int line_armour(struct line *l);
void line_close(struct line *l);

enum line_news {
	LINE_NOTHING, /* no byte, now */
	LINE_BYTES,
	LINE_ABSENT, /* nobody is connected on the host */
	LINE_GONE,   /* and will not come back */
};
enum line_news line_fill(struct line *l);

enum line_found {
	LINE_MORE,  /* no whole frame */
	LINE_FRAME, /* valid until the next line_fill */
	LINE_LOST,  /* not a frame: everything until the next HELLO will be skipped */
};
enum line_found line_next(struct line *l, struct wire_msg *ret, struct frame *ret_frame);
void line_lose(struct line *l); /* a frame made no sense to the caller */

/* Queues a message; false when out of memory: the line is lost. */
bool line_send(struct line *l, const struct wire_msg *m, const void *body, size_t len);
/* The same in two steps: a place for a body of up to max bytes, then how many it has become. */
uint8_t *line_begin(struct line *l, const struct wire_msg *m, size_t max);
void line_end(struct line *l, size_t len); /* 0: there is no message after all */
/* Writes what can be written now; false if the line is gone. */
bool line_flush(struct line *l);

/* Whether there is something that could not be written yet. */
static inline bool line_waits(const struct line *l)
{
	return l->tx.len || (l->armoured && l->armoured->len);
}

static inline bool line_has_room(const struct line *l)
{
	return l->tx.len < LINE_ROOM;
}

/* Pure: the first place where a HELLO begins or, at the very end, may begin; len if nowhere. */
size_t line_find_hello(const uint8_t *p, size_t len);
