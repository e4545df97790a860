/*
 * ring.h - the tail of a command's output, for WIRE_EXEC_CAPTURE. A ring grows as needed up to a
 * maximum, then forgets the oldest bytes. All rings share one budget, so that no flood of output
 * can take the guest's memory: when the budget is spent, or the system has none left, a ring keeps
 * less.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct ring {
	uint8_t *p;
	size_t cap, start, len;
	size_t keep;  /* how much of the tail is wanted */
	size_t limit; /* cap never grows past this */
};

void ring_set_budget(size_t bytes); /* once, at the start */
void ring_init(struct ring *r, uint64_t keep);
void ring_free(struct ring *r); /* leaves an empty ring */

/* One read(2) of at most want bytes, with its result and errno. */
ssize_t ring_fill(struct ring *r, int fd, size_t want);
/* Forgets all but the last `keep` bytes: call it once, when nothing more comes. */
void ring_trim(struct ring *r);
/* Takes the oldest bytes out, at most n. Returns how many. */
size_t ring_take(struct ring *r, uint8_t *out, size_t n);
