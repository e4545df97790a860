#include "util/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"

enum {
	BUF_KEEP_MAX = 4 * 1024
}; /* an empty buffer keeps no more memory than this: most buffers are empty most of the time */

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}

uint8_t *buf_room(struct buf *b, size_t n)
{
	size_t want = b->len + n, cap;
	uint8_t *p;

	if (want < n)
		return NULL;
	if (b->p && b->start + want <= b->cap)
		return b->p + b->start + b->len;
	if (b->start && want <= b->cap) {
		memmove(b->p, b->p + b->start, b->len);
		b->start = 0;
		return b->p + b->len;
	}
	cap = b->cap ? b->cap : 256;
	while (cap < want)
		cap += cap / 2 + 256;
	p = malloc(cap);
	if (!p)
		return NULL;
	if (b->len)
		memcpy(p, b->p + b->start, b->len);
	free(b->p);
	b->p = p;
	b->start = 0;
	b->cap = cap;
	return b->p + b->len;
}

void buf_grew(struct buf *b, size_t n)
{
	b->len += n;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *room = b->failed ? NULL : buf_room(b, n);

	if (!room) {
		b->failed = true;
		return;
	}
	if (n)
		memcpy(room, p, n);
	buf_grew(b, n);
}

void buf_puts(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void buf_putf(struct buf *b, const char *fmt, ...)
{
	auto_free char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0) {
		s = NULL;
		b->failed = true;
		return;
	}
	buf_put(b, s, (size_t)n);
}

int buf_check(const struct buf *b, struct err *e)
{
	return b->failed ? err_oom(e) : 0;
}

int buf_add(struct buf *b, const void *p, size_t n, struct err *e)
{
	uint8_t *room = buf_room(b, n);

	if (!room)
		return err_oom(e);
	if (n)
		memcpy(room, p, n);
	buf_grew(b, n);
	return 0;
}

int buf_add_str(struct buf *b, const char *s, struct err *e)
{
	return buf_add(b, s, strlen(s), e);
}

int buf_printf(struct buf *b, struct err *e, const char *fmt, ...)
{
	auto_free char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0) {
		s = NULL;
		return err_oom(e);
	}
	return buf_add(b, s, (size_t)n, e);
}

void buf_drop(struct buf *b, size_t n)
{
	b->start += n;
	b->len -= n;
	if (b->len)
		return;
	b->start = 0;
	if (b->cap > BUF_KEEP_MAX)
		buf_free(b);
}

char *buf_take_str(struct buf *b)
{
	uint8_t *room = b->failed ? NULL : buf_room(b, 1);
	char *s;

	if (!room)
		return NULL;
	*room = 0;
	if (b->start)
		memmove(b->p, b->p + b->start, b->len + 1);
	s = (char *)b->p;
	*b = (struct buf){0};
	return s;
}
