/* buf.h - a growing byte buffer, and a borrowed view of bytes. No I/O, no locking. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

/* Borrowed bytes: whoever made them keeps them alive. */
struct bytes {
	const uint8_t *p;
	size_t len;
};

/* Zero-initialised is empty. The bytes in use are p[start] .. p[start + len - 1]. buf_put, buf_puts
 * and buf_putf record a failure here: call them all, then buf_check once. */
struct buf {
	uint8_t *p;
	size_t start, len, cap;
	bool failed; /* memory ran out: at least one call added nothing */
};

void buf_free(struct buf *b);
#define auto_buf __attribute__((cleanup(buf_free)))

static inline uint8_t *buf_data(const struct buf *b)
{
	return b->p ? b->p + b->start : NULL; /* adding 0 to NULL is undefined behaviour */
}

static inline struct bytes buf_bytes(const struct buf *b)
{
	return (struct bytes){buf_data(b), b->len};
}

/* Makes room for n more bytes and returns where to write them; then call buf_grew with the number
 * written. NULL: out of memory. */
uint8_t *buf_room(struct buf *b, size_t n);
void buf_grew(struct buf *b, size_t n);
void buf_put(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
PRINTF_LIKE(2, 3) void buf_putf(struct buf *b, const char *fmt, ...);
int buf_check(const struct buf *b, struct err *e);
int buf_add(struct buf *b, const void *p, size_t n, struct err *e);
int buf_add_str(struct buf *b, const char *s, struct err *e);
PRINTF_LIKE(3, 4) int buf_printf(struct buf *b, struct err *e, const char *fmt, ...);
/* Forgets the first n bytes. Gives the memory back when a large buffer becomes empty. */
void buf_drop(struct buf *b, size_t n);
/* The buffer's content as a malloc'd NUL-terminated string; the buffer is empty afterwards. NULL:
 * out of memory, in this call or in an earlier buf_put. */
char *buf_take_str(struct buf *b);

static inline uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void put_le32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)(v >> 16);
	p[3] = (uint8_t)(v >> 24);
}
