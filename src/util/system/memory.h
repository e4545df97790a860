/*
 * memory.h - how much memory this process and its children can still have: the host's, or less if a
 * control group (a container, a batch job, a service with a limit) bounds them. No state; any
 * thread.
 *
 * A process that asks for more than there is gets no error: the kernel kills some process instead.
 * So code that needs much memory checks first, and takes it in pieces.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "util/thread/op.h"

struct memory {
	uint64_t total, available; /* bytes; page cache that the kernel can drop at once counts as
				      available */
};
void memory_measure(struct memory *ret);
/* Like memory_measure, with other directories in place of /proc and /sys/fs/cgroup. */
void memory_measure_in(const char *proc, const char *cgroups, struct memory *ret);

/* Fails with ERR_LIMIT and ENOMEM unless `bytes`, and some spare, are available. what: for the
 * message. */
int memory_check(uint64_t bytes, const char *what, struct err *e);
/*
 * Whether a writer of a file of that size should sync it piece by piece. Pages of the cache can be
 * dropped only after they are on the disk, and in a control group the kernel may not wait for that.
 */
bool memory_is_short(uint64_t bytes);
/* Allocates all pages of a file on memfd or tmpfs, up to size, as long as memory_check allows.
 * Keeps the file's size. After a failure the file keeps the pages that it got. */
int memory_reserve(const struct op *op, int fd, uint64_t size, const char *what, struct err *e);
/* Whether the file's pages are memory (memfd, tmpfs). */
bool memory_backs(int fd);

/* When the kernel kills this process if memory runs out: before all others, however large they are,
 * or a little before its parent. pid 0: the calling process, which still has its parent's rank. */
enum memory_victim { MEMORY_VICTIM_FIRST, MEMORY_VICTIM_LATER };
void memory_victim(int pid, enum memory_victim when);
/* How many processes the kernel has killed for lack of memory since it started. */
uint64_t memory_kills(void);

/* Pure: the value in bytes of a "Name:   123 kB" line of /proc/meminfo; 0 if it is not there. */
uint64_t meminfo_bytes(const char *text, const char *name);
