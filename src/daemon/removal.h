/* removal.h - taking sandboxes away, and taking away what an earlier daemon left. */
#pragma once

#include "daemon/daemon.h"

/*
 * Removes every sandbox that fits: cancels what runs in it, waits for that, destroys it. Those that
 * are still being made are cancelled and waited for. Tries all, logs each failure, and returns the
 * first.
 */
int removal_run(struct daemon *d, sandbox_filter fits, void *arg, struct err *e);

/*
 * Removes what the journal knows of sandboxes that are not in the registry, and what drivers find
 * of ours besides. said hears a line for each thing. Fails with the first thing that would not go,
 * after trying all.
 */
int reclaim_run(struct daemon *d, const struct op *op, void (*said)(void *arg, const char *text),
	void *said_arg, struct err *e);
