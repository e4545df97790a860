/*
 * armour.h - bytes as plain ASCII text, for ways that would alter anything else: the JSON of a
 * guest agent behind a web server, a serial terminal. Pure; built into the daemon and the runner.
 *
 * Lines, for a stream that may hold rubbish: a mark ('~' to the guest, '^' from it, so that an echo
 * is rubbish too), a check sum (8 hex digits), a number (4 hex digits), base64, newline. The number
 * 0 begins a conversation, each line adds one, and after 0xffff comes 1. What is no such line is
 * skipped; a line that is missing ends the conversation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What `moat-guest take` ends with if no drive has the disc (runner/disc.h). */
enum { TAKE_NO_DISC = 4 };

/* CRC-32 as in zip files; crc: 0, or of what came before. */
uint32_t armour_crc(uint32_t crc, const void *p, size_t n);

enum {
	ARMOUR_PIECE = 1536,           /* bytes of a line, a multiple of 3 */
	ARMOUR_PART = 3 * 1024 * 1024, /* at most, of a result's file, before base64 */
	ARMOUR_MARK = 13,              /* in front of the base64 */
	ARMOUR_LINE_MAX = ARMOUR_MARK + ARMOUR_PIECE / 3 * 4 + 1,
};

enum armour_side { ARMOUR_TO_GUEST = '~', ARMOUR_TO_HOST = '^' };

/* Writes one line of n bytes, 1 to ARMOUR_PIECE; returns its length. */
size_t armour_line(enum armour_side side, uint16_t number, const uint8_t *p, size_t n,
	char out[ARMOUR_LINE_MAX]);
uint16_t armour_next(uint16_t number);

struct armour_reader {         /* otherwise zero-initialised: waits for a beginning */
	enum armour_side side; /* of the lines that it takes */
	char line[ARMOUR_LINE_MAX];
	size_t len;
	bool skip; /* the line is too long to be one */
	bool begun;
	uint16_t next;
};
enum armour_news {
	ARMOUR_NOTHING, /* all was taken, and there is no whole line */
	ARMOUR_BEGIN,   /* a conversation begins; with bytes */
	ARMOUR_BYTES,
	ARMOUR_LOST, /* a line is missing; until the next beginning, nothing comes */
};
/*
 * Takes text off the front of *p, up to one line of ours; its bytes, at most ARMOUR_PIECE, go to
 * out.
 */
enum armour_news armour_read(struct armour_reader *r, const char **p, size_t *left,
	uint8_t out[ARMOUR_PIECE], size_t *ret_len);

/*
 * What `moat-guest once` gets and gives (runner/once.h): a line "moat1 ID PARTS LENGTH CRC\n" about
 * the whole, then, if PARTS is 0, the base64 of it. Otherwise it is in files.
 */
enum { ARMOUR_ID_MAX = 32, ARMOUR_HEAD_MAX = 96 };
struct armour_head {
	char id[ARMOUR_ID_MAX + 1]; /* hex digits */
	uint32_t parts;
	uint64_t length;
	uint32_t crc;
};
size_t armour_put_head(const struct armour_head *h, char out[ARMOUR_HEAD_MAX]);
/* The length of the line, newline included; 0: it is none. */
size_t armour_get_head(const char *text, size_t len, struct armour_head *ret);
bool armour_is_id(const char *id);
