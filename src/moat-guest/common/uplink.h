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
	UPLINK_ROOM = 192 * 1024,  /* DATA is made only while less than this waits to be sent */
	UPLINK_FULL = 1024 * 1024, /* and nothing is read from the host while this much does */
};

struct uplink_bytes {
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

struct uplink {
	int in, out;
	bool is_port; /* a device: the host may hang up and come back */
	bool linger;  /* after the end of the line, until background processes have ended */
	bool synced;
	struct ascii *ascii; /* NULL: bytes go as they are */
	struct uplink_bytes rx, tx;
	size_t frame; /* where in tx the frame of uplink_begin starts, counted from tx.start */
};

/*
 * where: "-" for stdin and stdout, a path, or the name of a virtio-serial port, which is waited for
 * a few seconds. 0 or an errno; EBUSY if another process has it.
 */
int uplink_open(struct uplink *l, const char *where);
/* Lets a serial port pass all bytes unchanged. Does nothing with other kinds of fds. */
void uplink_make_raw(int fd);
/* Uses ASCII framing from now on. 0 or an errno. */
int uplink_ascii(struct uplink *l);
void uplink_close(struct uplink *l);

enum uplink_news {
	UPLINK_NOTHING, /* no bytes yet */
	UPLINK_BYTES,
	UPLINK_ABSENT, /* nobody is connected on the host */
	UPLINK_GONE,   /* the line has ended for good */
};
enum uplink_news uplink_fill(struct uplink *l);

enum uplink_found {
	UPLINK_MORE,  /* no whole frame */
	UPLINK_FRAME, /* valid until the next uplink_fill */
	UPLINK_LOST,  /* not a frame: everything until the next HELLO will be skipped */
};
enum uplink_found uplink_next(struct uplink *l, struct wire_msg *ret, struct frame *ret_frame);
void uplink_lose(struct uplink *l); /* a frame made no sense to the caller */

/* Queues a message; false when out of memory: the line is lost. */
bool uplink_send(struct uplink *l, const struct wire_msg *m, const void *body, size_t len);
/* Queues a message in two steps: uplink_begin gives room for a body of up to max bytes, uplink_end
 * says how many were put there. */
uint8_t *uplink_begin(struct uplink *l, const struct wire_msg *m, size_t max);
void uplink_end(struct uplink *l, size_t len); /* 0: there is no message after all */
/* Writes what can be written now; false if the line is gone. */
bool uplink_flush(struct uplink *l);

/* Whether bytes are queued that could not be written yet. */
static inline bool uplink_waits(const struct uplink *l)
{
	return l->tx.len || (l->ascii && l->ascii->len);
}

static inline bool uplink_has_room(const struct uplink *l)
{
	return l->tx.len < UPLINK_ROOM;
}

/* Pure: the first place where a HELLO begins or, at the very end, may begin; len if nowhere. */
size_t uplink_find_hello(const uint8_t *p, size_t len);
