#include "moat-guest/common/uplink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum {
	BYTES_FIRST = 128 * 1024,
	HELLO_HEAD = 1 + 4 + 4 + WIRE_NONCE,
	HELLO_FRAME = FRAME_HEADER + HELLO_HEAD,
	PORT_READ = 4096, /* a virtio port gives at most a page at a time */
};

void uplink_close(struct uplink *l)
{
	free(l->rx.p);
	free(l->tx.p);
	free(l->ascii);
	if (l->in >= 0)
		close(l->in);
	if (l->out >= 0)
		close(l->out);
}

/* Makes room for n more bytes behind those that are there. */
static bool make_room(struct uplink_bytes *b, size_t n)
{
	size_t cap = b->cap ? b->cap : BYTES_FIRST;
	uint8_t *p;

	if (b->start + b->len + n <= b->cap)
		return true;
	if (b->start) {
		memmove(b->p, b->p + b->start, b->len);
		b->start = 0;
	}
	while (cap < b->len + n)
		cap *= 2;
	if (cap == b->cap)
		return true;
	p = realloc(b->p, cap);
	if (!p)
		return false;
	b->p = p;
	b->cap = cap;
	return true;
}

static void drop(struct uplink_bytes *b, size_t n)
{
	b->start += n;
	b->len -= n;
	if (b->len)
		return;
	b->start = 0;
	if (b->cap > UPLINK_FULL) { /* one huge command line must not stay in memory for ever */
		free(b->p);
		b->p = NULL;
		b->cap = 0;
	}
}

void uplink_lose(struct uplink *l)
{
	l->synced = false;
}

/*
 * Complete frames stay: bytes of a new connection may be here before the kernel knows of the
 * connection, and then read(2) gives these bytes first and "nobody there" after them. Only a frame
 * that was cut off is dropped: otherwise it would swallow the next HELLO.
 */
static enum uplink_news hung_up(struct uplink *l)
{
	if (!l->is_port)
		return UPLINK_GONE;
	if (l->rx.len) {
		uplink_lose(l);
		drop(&l->rx, l->rx.len);
	}
	return UPLINK_ABSENT;
}

void uplink_make_raw(int fd)
{
	struct termios t;

	if (tcgetattr(fd, &t) == 0) {
		cfmakeraw(&t);
		t.c_cflag |= CLOCAL | CREAD;
		cfsetspeed(&t, B115200);
		tcsetattr(fd, TCSANOW, &t);
	}
}

int uplink_ascii(struct uplink *l)
{
	l->ascii = calloc(1, sizeof(*l->ascii));
	if (!l->ascii)
		return ENOMEM;
	l->ascii->reader.side = ASCII_TO_GUEST;
	return 0;
}

/* The host begins a new conversation: what is queued belongs to the old one and is dropped. */
static void begin_anew(struct uplink *l)
{
	uplink_lose(l);
	uplink_make_raw(l->in); /* another program may have changed it since */
	drop(&l->rx, l->rx.len);
	drop(&l->tx, l->tx.len);
	l->ascii->at = l->ascii->len = 0;
	l->ascii->next = 0;
}

static void take_text(struct uplink *l, const char *p, size_t left)
{
	uint8_t bytes[ASCII_PIECE];
	enum ascii_event news;
	size_t n = 0;

	while ((news = ascii_read(&l->ascii->reader, &p, &left, bytes, &n)) != ASCII_NOTHING) {
		if (news == ASCII_BEGIN)
			begin_anew(l);
		if (news == ASCII_LOST || !make_room(&l->rx, n)) {
			uplink_lose(l);
			drop(&l->rx, l->rx.len);
			continue;
		}
		memcpy(l->rx.p + l->rx.start + l->rx.len, bytes, n);
		l->rx.len += n;
	}
}

static enum uplink_news fill_ascii(struct uplink *l)
{
	enum uplink_news news = UPLINK_NOTHING;
	char text[PORT_READ];
	ssize_t n;

	drop(&l->rx, 0);
	do {
		n = read(l->in, text, sizeof(text));
		if (n > 0) {
			take_text(l, text, (size_t)n);
			news = UPLINK_BYTES;
		}
	} while (n == sizeof(text) && l->rx.len < UPLINK_FULL);
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return news;
	return n < 0 && errno == ENODEV ? UPLINK_GONE : UPLINK_ABSENT;
}

enum uplink_news uplink_fill(struct uplink *l)
{
	enum uplink_news news = UPLINK_NOTHING;
	size_t space;
	ssize_t n;

	if (l->ascii)
		return fill_ascii(l);
	drop(&l->rx, 0);
	if (!make_room(&l->rx, PORT_READ)) {
		uplink_lose(l);
		drop(&l->rx, l->rx.len);
		return UPLINK_NOTHING;
	}
	do {
		space = l->rx.cap - l->rx.start - l->rx.len;
		if (!space)
			return news;
		n = read(l->in, l->rx.p + l->rx.start + l->rx.len, space);
		if (n > 0) {
			l->rx.len += (size_t)n;
			news = UPLINK_BYTES;
		}
	} while (n >= PORT_READ);
	if (n == 0)
		return hung_up(l);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return errno == ENODEV ? UPLINK_GONE : hung_up(l);
	return news;
}

size_t uplink_find_hello(const uint8_t *p, size_t len)
{
	static const uint8_t hello[] = {HELLO_HEAD, 0, 0, 0, 0, 0, 0, 0, WIRE_HELLO};

	for (size_t at = 0; at < len; at++) {
		size_t n = len - at < sizeof(hello) ? len - at : sizeof(hello);

		if (memcmp(p + at, hello, n) == 0)
			return at;
	}
	return len;
}

/* Skips to a HELLO. If one was cut off and another follows, the second counts. */
static bool find_hello(struct uplink *l)
{
	struct uplink_bytes *b = &l->rx;

	for (;;) {
		size_t at, next;

		drop(b, uplink_find_hello(b->p + b->start, b->len));
		if (b->len < HELLO_FRAME)
			return false;
		at = b->start + 1;
		next = uplink_find_hello(b->p + at, HELLO_FRAME - 1);
		if (next + FRAME_HEADER + 1 > HELLO_FRAME - 1)
			return true;
		drop(b, next + 1);
	}
}

enum uplink_found uplink_next(struct uplink *l, struct wire_msg *ret, struct frame *ret_frame)
{
	long size;

	if (!l->synced) {
		if (!l->rx.len || !find_hello(l))
			return UPLINK_MORE;
		l->synced = true;
	}
	size = frame_decode(l->rx.p + l->rx.start, l->rx.len, &wire_to_guest, ret_frame);
	if (size == 0) {
		/* The frame is larger than the buffer, but its header is there: make room for all
		 * of it. */
		if (l->rx.len < l->rx.cap / 2 || make_room(&l->rx, l->rx.len))
			return UPLINK_MORE;
		size = -1;
	}
	if (size < 0 || !wire_decode(ret_frame->head, ret_frame->head_len, ret)) {
		uplink_lose(l);
		drop(&l->rx, 1);
		return UPLINK_LOST;
	}
	/* The bytes stay where they are until the next fill, unless they were the last. */
	l->rx.start += (size_t)size;
	l->rx.len -= (size_t)size;
	return UPLINK_FRAME;
}

uint8_t *uplink_begin(struct uplink *l, const struct wire_msg *m, size_t max)
{
	uint8_t head[WIRE_HEAD_MAX], *p;
	size_t n = wire_encode(m, head);

	if (!make_room(&l->tx, FRAME_HEADER + n + max)) {
		uplink_lose(l);
		return NULL;
	}
	l->frame = l->tx.len;
	p = l->tx.p + l->tx.start + l->tx.len;
	frame_encode_header(p, (uint32_t)n, 0);
	memcpy(p + FRAME_HEADER, head, n);
	l->tx.len += FRAME_HEADER + n;
	return p + FRAME_HEADER + n;
}

void uplink_end(struct uplink *l, size_t len)
{
	uint8_t *p = l->tx.p + l->tx.start + l->frame;

	if (!len) {
		l->tx.len = l->frame;
		return;
	}
	frame_encode_header(p, (uint32_t)(l->tx.len - l->frame - FRAME_HEADER), (uint32_t)len);
	l->tx.len += len;
}

bool uplink_send(struct uplink *l, const struct wire_msg *m, const void *body, size_t len)
{
	uint8_t *place = uplink_begin(l, m, len);

	if (!place)
		return false;
	if (len) {
		memcpy(place, body, len);
		uplink_end(l, len);
	}
	return true;
}

static bool flush_ascii(struct uplink *l)
{
	struct ascii *a = l->ascii;

	for (;;) {
		size_t n = l->tx.len < ASCII_PIECE ? l->tx.len : ASCII_PIECE;
		ssize_t done;

		if (!a->len && !n)
			return true;
		if (!a->len) {
			a->at = 0;
			a->len = ascii_line(
				ASCII_TO_HOST, a->next, l->tx.p + l->tx.start, n, a->text);
			a->next = ascii_next(a->next);
			drop(&l->tx, n);
		}
		done = write(l->out, a->text + a->at, a->len);
		if (done < 0)
			return errno != ENODEV; /* the rest is for later */
		a->at += (size_t)done;
		a->len -= (size_t)done;
	}
}

bool uplink_flush(struct uplink *l)
{
	if (l->ascii)
		return flush_ascii(l);
	while (l->tx.len) {
		ssize_t n = write(l->out, l->tx.p + l->tx.start, l->tx.len);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR || (l->is_port && errno != ENODEV);
		drop(&l->tx, (size_t)n);
	}
	return true;
}
