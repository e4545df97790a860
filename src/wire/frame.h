/*
 * frame.h - the framing of the client protocol and of the line to the runner: two little-endian
 * lengths, then head and body. Pure: no fd, no clock, no global; tests and fuzzers call these very
 * functions.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEADER = 8 };

struct frame_limits {
	uint32_t head_min, head_max, body_max;
};

/* Points into the bytes that were decoded. */
struct frame {
	const uint8_t *head, *body;
	uint32_t head_len, body_len;
};

/* Returns the size of the whole frame at p, 0 if it is not complete yet, -1 if it breaks the
 * limits. */
long frame_decode(
	const uint8_t *p, size_t len, const struct frame_limits *limits, struct frame *ret);
void frame_encode_header(uint8_t out[FRAME_HEADER], uint32_t head_len, uint32_t body_len);
