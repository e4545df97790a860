/* ring.h - the newest of what a service has written. What is older is forgotten: a service can
 * write for ever. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { RING_BYTES = 1 << 20 };

struct ring {
	char *p;      /* its memory is taken when it is written to */
	uint64_t end; /* how many bytes have come in all */
};

int ring_open(struct ring *r); /* 0 or an errno */
void ring_put(struct ring *r, const char *p, size_t n);
/* Copies from *at on, at most size bytes, and moves *at. *ret_lost: how many bytes were forgotten
 * before that. */
size_t ring_get(const struct ring *r, uint64_t *at, char *out, size_t size, uint64_t *ret_lost);
