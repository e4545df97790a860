/* suggest.h - "did you mean": the known word nearest to a mistyped one. Pure. */
#pragma once

#include <stddef.h>

/* Zero-initialise it, then offer every known word to suggest_consider. */
struct suggestion {
	const char *word; /* the nearest so far; NULL if none is near enough */
	unsigned distance;
};

void suggest_consider(struct suggestion *best, const char *typed, size_t len, const char *known);
