/* removal.h - removing sandboxes, and reclaiming what an earlier daemon left. Any thread. */
#pragma once

#include "daemon/daemon.h"

/*
 * Removes every sandbox that fits: cancels what runs in it, waits for that, destroys it. The making
 * of a sandbox is cancelled and waited for, too, and so is a removal by others. Tries all, logs
 * each failure, and returns the first. asked: hears of the progress, and may be NULL; its end does
 * not end the removal.
 */
int removal_run(
	struct daemon *d, const struct op *asked, sandbox_filter fits, void *arg, struct err *e);

struct reclaim_req {
	void (*said)(void *arg, const char *text); /* hears a line for each journal entry */
	/* Hears why an entry could not be reclaimed, which then is no failure of the whole. NULL:
	 * it is one. */
	void (*stays)(void *arg, const char *why);
	void *arg;
	const json_t *access; /* the asking client's access to a backend; may be NULL */
	enum reclaim_when {
		RECLAIM_ALL,
		/* Reclaims what is on this host, before the daemon serves anybody. */
		RECLAIM_AT_START,
		/* Reclaims the rest, while the daemon serves. Drivers of servers do that by
		 * themselves. */
		RECLAIM_AFTER_START,
	} when;
};
/*
 * Reclaims the journal entries of sandboxes that are not in the registry, and sweeps what the
 * journal does not know. One caller at a time; the others wait. Tries all, and then fails with the
 * first failure, unless stays() has heard of each.
 */
int reclaim_run(
	struct daemon *d, const struct op *op, const struct reclaim_req *req, struct err *e);
