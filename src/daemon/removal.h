/* removal.h - taking sandboxes away, and taking away what an earlier daemon left. */
#pragma once

#include "daemon/daemon.h"

/*
 * Removes every sandbox that fits: cancels what runs in it, waits for that, destroys it. Those that
 * are still being made are cancelled and waited for. Tries all, logs each failure, and returns the
 * first.
 */
int removal_run(struct daemon *d, sandbox_filter fits, void *arg, struct err *e);

struct reclaim_req {
	void (*said)(void *arg, const char *text); /* hears a line for each thing */
	/* Hears, of each that would not go, why. Then that is no failure of the whole. NULL: it is.
	 */
	void (*stays)(void *arg, const char *why);
	void *arg;
	const json_t *access; /* of whoever asks; NULL: nobody does */
	enum reclaim_when {
		RECLAIM_ALL,
		/* What is on this host goes at once: before the daemon serves anybody. */
		RECLAIM_AT_START,
		/* What takes as long as it takes; but servers are left to the drivers, which
		 * reclaim by themselves. */
		RECLAIM_AFTER_START,
	} when;
};
/*
 * Removes what the journal knows of sandboxes that are not in the registry, and what drivers find
 * of ours besides; one caller at a time, the others wait. Tries all, and then fails with the first
 * thing that would not go, unless somebody heard of each.
 */
int reclaim_run(
	struct daemon *d, const struct op *op, const struct reclaim_req *req, struct err *e);
