/*
 * uplink.h - the runner's end of the line: bytes in and out, cut into frames (wire/wire.h). It does
 * not know what the messages mean, except for HELLO: until a HELLO has come, and again after
 * anything that is not a proper frame, all other bytes are skipped.
 */
#pragma once

#include <stdbool.h>

#include "wire/ascii.h"
#include "wire/wire.h"

enum {
	LINE_ROOM = 192 * 1024,  /* DATA is made only while less than this waits to be sent */
	LINE_FULL = 1024 * 1024, /* and nothing is read from the host while this much does */
};

struct line_bytes {
	uint8_t *p;
	size_t start, len, cap;
};

/* What ASCII framing (wire/ascii.h) has between frames and fds. */
struct ascii {
	struct ascii_reader reader;
	uint16_t next; /* number of the next line to send */
	char text[ASCII_LINE_MAX];
	size_t at, len; /* the part of text that is not sent yet */
};

struct line {
	int in, out;
	bool is_port; /* a device: the host may hang up and come back */
	bool linger;  /* after the end of the line, until background processes have ended */
	bool synced;
	struct ascii *ascii; /* NULL: bytes go as they are */
	struct line_bytes rx, tx;
	size_t frame; /* where in tx the frame of line_begin starts, counted from tx.start */
};

/*
 * where: "-" for stdin and stdout, a path, or the name of a virtio-serial port, which is waited for
 * a few seconds. 0 or an errno; EBUSY if another process has it.
 */
int line_open(struct line *l, const char *where);
/* Lets a serial port pass all bytes unchanged. Does nothing with other kinds of fds. */
void line_make_raw(int fd);
/* Uses ASCII framing from now on. 0 or an errno. */
int line_ascii(struct line *l);
void line_close(struct line *l);

enum line_news {
	LINE_NOTHING, /* no bytes yet */
	LINE_BYTES,
	LINE_ABSENT, /* nobody is connected on the host */
	LINE_GONE,   /* the line has ended for good */
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
/* Queues a message in two steps: line_begin gives room for a body of up to max bytes, line_end says
 * how many were put there. */
uint8_t *line_begin(struct line *l, const struct wire_msg *m, size_t max);
void line_end(struct line *l, size_t len); /* 0: there is no message after all */
/* Writes what can be written now; false if the line is gone. */
bool line_flush(struct line *l);

/* Whether bytes are queued that could not be written yet. */
static inline bool line_waits(const struct line *l)
{
	return l->tx.len || (l->ascii && l->ascii->len);
}

static inline bool line_has_room(const struct line *l)
{
	return l->tx.len < LINE_ROOM;
}

/* Pure: the first place where a HELLO begins or, at the very end, may begin; len if nowhere. */
size_t line_find_hello(const uint8_t *p, size_t len);
