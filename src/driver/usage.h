/* usage.h - what processes have used of this host. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct usage {
	uint64_t cpu_us;   /* processor time, in the kernel too */
	uint64_t resident; /* bytes of memory */
	uint64_t unshared; /* of these, not shared with other processes */
};

/* Adds up a process and all below it whose name begins so. Processes that end meanwhile count as
 * nothing. */
void usage_of_tree(int pid, const char *name, struct usage *ret);
/* Whether a thread of a process, or of one below it, runs at this moment, wants to, or waits for a
 * disk. */
bool usage_tree_runs(int pid);
