/* suggest.h - "did you mean": the known word nearest to a mistyped one. Pure. */
#pragma once

#include <stddef.h>

/* Zero-initialised: nothing found yet. */
struct suggestion {
	const char *word; /* the best so far; NULL if none is near enough */
	unsigned distance;
};

void suggest_consider(struct suggestion *best, const char *typed, size_t len, const char *known);
