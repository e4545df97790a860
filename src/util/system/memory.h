/*
 * memory.h - how much memory this process and its children can still have: the host's, or less if a
 * control group (a container, a batch job, a service with a limit) bounds them. No state; any
 * thread.
 *
 * Who finds none is not told by an error: the kernel kills one of those who have some. So whatever
 * takes much looks first, and takes it in pieces.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "util/op.h"

struct memory {
	uint64_t total, available; /* bytes; what can be reclaimed at once is available */
};
void memory_look(struct memory *ret);
/* The same from other places than /proc and /sys/fs/cgroup. */
void memory_look_in(const char *proc, const char *cgroups, struct memory *ret);

/* Fails with ERR_LIMIT and ENOMEM unless there are that many bytes and some more. */
int memory_check(uint64_t bytes, const char *what, struct err *e);
/* Whether a file of that size should be written to the disk bit by bit: written pages can be
 * dropped, but not before they are on the disk, and in a control group nobody may wait for that. */
bool memory_is_short(uint64_t bytes);
/* Gives a file whose pages are memory (of a memfd or tmpfs) all of them up to size, as long as
 * memory_check allows. The file's size stays; what was given stays with it, too. */
int memory_take(const struct op *op, int fd, uint64_t size, const char *what, struct err *e);
/* Whether files of that file system are in memory. */
bool memory_holds(int fd);

/* How soon the kernel picks a process when memory runs out: before all others however large they
 * are, or merely a little before ourselves. pid 0: the calling process, which has our place yet. */
enum memory_victim { MEMORY_VICTIM_FIRST, MEMORY_VICTIM_LATER };
void memory_victim(int pid, enum memory_victim when);
/* How many processes the kernel has killed for want of memory since it started. */
uint64_t memory_kills(void);

/* Pure: the value in bytes of a "Name:   123 kB" line of /proc/meminfo; 0 if it is not there. */
uint64_t meminfo_bytes(const char *text, const char *name);
