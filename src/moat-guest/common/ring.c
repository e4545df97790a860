#include "moat-guest/common/ring.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	RING_FIRST = 4096,      /* most commands say little */
	RING_LEAST = 64 * 1024, /* a small tail must not make for small reads */
};

/* May go below zero: a ring's first piece is always granted. */
static int64_t budget = 16 * 1024 * 1024;

void ring_set_budget(size_t bytes)
{
	budget = (int64_t)bytes;
}

void ring_init(struct ring *r, uint64_t keep)
{
	*r = (struct ring){.keep = keep > SIZE_MAX / 8 ? SIZE_MAX / 8 : (size_t)keep};
	r->limit = r->keep < RING_LEAST ? RING_LEAST : r->keep;
}

void ring_free(struct ring *r)
{
	budget += (int64_t)r->cap;
	if (r->p)
		munmap(r->p, r->cap);
	*r = (struct ring){0};
}

/* Only a full ring grows, and it does so before it first wraps: start is still 0. */
static void grow(struct ring *r)
{
	size_t cap = r->cap ? r->cap * 4 : RING_FIRST;
	uint8_t *p;

	if (cap > r->limit)
		cap = r->limit;
	if (r->cap && (int64_t)(cap - r->cap) > budget) {
		r->limit = r->cap;
		return;
	}
	p = r->p ? mremap(r->p, r->cap, cap, MREMAP_MAYMOVE)
		 : mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		r->limit = r->cap;
		return;
	}
	/* A supervisor that is forked now would hold the memory as long as it lives. */
	if (!r->p)
		madvise(p, cap, MADV_DONTFORK);
	budget -= (int64_t)(cap - r->cap);
	r->p = p;
	r->cap = cap;
}

ssize_t ring_fill(struct ring *r, int fd, size_t want)
{
	uint8_t scratch[4096];
	size_t at, n;
	ssize_t got;

	if (r->len == r->cap && r->cap < r->limit)
		grow(r);
	if (!r->cap) /* not even the first bytes could be had: count, keep nothing */
		return read(fd, scratch, want < sizeof(scratch) ? want : sizeof(scratch));
	at = (r->start + r->len) % r->cap;
	n = r->cap - at < want ? r->cap - at : want;
	got = read(fd, r->p + at, n);
	if (got <= 0)
		return got;
	r->len += (size_t)got;
	if (r->len > r->cap) {
		r->start = (r->start + r->len - r->cap) % r->cap;
		r->len = r->cap;
	}
	return got;
}

void ring_trim(struct ring *r)
{
	if (r->len > r->keep) {
		r->start = (r->start + r->len - r->keep) % r->cap;
		r->len = r->keep;
	}
}

size_t ring_take(struct ring *r, uint8_t *out, size_t n)
{
	size_t taken = 0;

	while (taken < n && r->len) {
		size_t piece = r->cap - r->start;

		if (piece > r->len)
			piece = r->len;
		if (piece > n - taken)
			piece = n - taken;
		memcpy(out + taken, r->p + r->start, piece);
		r->start = (r->start + piece) % r->cap;
		r->len -= piece;
		taken += piece;
	}
	return taken;
}
