/*
 * ascii.h - ASCII framing: bytes as plain ASCII text, for transports that alter other bytes: the
 * JSON of a guest agent behind a web server, a serial terminal. Pure; built into the daemon and the
 * runner.
 *
 * A stream that may hold rubbish carries lines: a mark ('~' to the guest, '^' from it, so that an
 * echo is rubbish too), a check sum (8 hex digits), a number (4 hex digits), base64, newline. The
 * number 0 begins a conversation, each line adds one, and after 0xffff comes 1. The reader skips
 * all other text; a missing line ends the conversation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses of `moat-guest`, see moat-guest/once/once.h and moat-guest/once/disc.h. */
enum {
	ONCE_BAD = 2,
	ONCE_UNKNOWN = 3, /* there is no such ID, or its result is lost */
	TAKE_NO_DISC = 4, /* no drive has the disc */
	TAKE_FULL = 5,    /* the guest's disk has no room for it */
};

/* CRC-32 as in zip files. crc: 0, or the CRC of the bytes before these. */
uint32_t ascii_crc(uint32_t crc, const void *p, size_t n);

enum {
	ASCII_PIECE = 1536,           /* bytes of a line, a multiple of 3 */
	ASCII_PART = 4 * 1024 * 1024, /* bytes of one file of a result at most */
	ASCII_LINE_HEAD = 13,         /* mark, check sum and number */
	ASCII_LINE_MAX = ASCII_LINE_HEAD + ASCII_PIECE / 3 * 4 + 1,
};

enum ascii_side { ASCII_TO_GUEST = '~', ASCII_TO_HOST = '^' };

/* Writes one line of n bytes, 1 to ASCII_PIECE; returns its length. */
size_t ascii_line(enum ascii_side side, uint16_t number, const uint8_t *p, size_t n,
	char out[ASCII_LINE_MAX]);
uint16_t ascii_next(uint16_t number);

struct ascii_reader {         /* zero but for side: no conversation has begun */
	enum ascii_side side; /* the mark of the lines that it reads */
	char line[ASCII_LINE_MAX];
	size_t len;
	bool skip; /* this text is too long to be a line */
	bool begun;
	uint16_t next;
};
enum ascii_event {
	ASCII_NOTHING, /* all text was read, and no line is complete */
	ASCII_BEGIN,   /* the first line of a conversation; with bytes */
	ASCII_BYTES,
	ASCII_LOST, /* a line is missing; the next event is ASCII_BEGIN */
};
/* Reads text from the front of *p until one line is complete, and puts the line's bytes, at most
 * ASCII_PIECE, into out. */
enum ascii_event ascii_read(struct ascii_reader *r, const char **p, size_t *left,
	uint8_t out[ASCII_PIECE], size_t *ret_len);

/*
 * The first line of what `moat-guest once` reads and writes (moat-guest/once/once.h):
 * "moat1 ID PARTS LENGTH CRC\n" describes all the bytes. If PARTS is 0, their base64 follows,
 * otherwise they are in files, as they are.
 */
enum { ASCII_ID_MAX = 32, ASCII_HEAD_MAX = 96 };
struct ascii_head {
	char id[ASCII_ID_MAX + 1]; /* hex digits */
	uint32_t parts;
	uint64_t length;
	uint32_t crc;
};
size_t ascii_put_head(const struct ascii_head *h, char out[ASCII_HEAD_MAX]);
/* Returns the length of the head, newline included; 0: text does not begin with one. */
size_t ascii_get_head(const char *text, size_t len, struct ascii_head *ret);
bool ascii_is_id(const char *id);
