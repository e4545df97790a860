/*
 * spool.h - what waits in the guest for the host to fetch it through the guest agent: a directory
 * beside the program, with one directory for each result, which is in files "0", "1" and so on
 * (each as large as one agent call carries well), or "NAME.0" and so on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SPOOL_CHUNK = 64 * 1024, /* must divide ASCII_PART */
	SPOOL_PATH_MAX = 4096,
};

/* Opens the directory, if it is not open. Call it before the process leaves the agent's mount
 * namespace: the agent must see the same files. 0 or an errno. */
int spool_open(void);
int spool_dir(void);          /* its fd, or -1 */
const char *spool_path(void); /* "" unless open */

struct spool_writer {
	int dir, fd;
	const char *name; /* of the files, or "" */
	uint32_t parts, crc;
	uint64_t length;
	size_t held, in_part;
	uint8_t chunk[SPOOL_CHUNK];
};
void spool_begin(struct spool_writer *w, int dir, const char *name);
/* 0 or an errno. After a failure only spool_drop may be called. */
int spool_add(struct spool_writer *w, const void *p, size_t n);
int spool_end(struct spool_writer *w);
void spool_drop(struct spool_writer *w);

/* Moves what two rings hold into a new directory of the spool. Returns what WIRE_EXIT says of it,
 * malloc'd. NULL: it failed, and the rings are as they were. */
struct ring;
char *spill_out(struct ring *out, struct ring *err);

/* Removes a result, and the parts of its request, which lie beside it. It may be missing; the
 * result of a running command stays. */
void spool_forget(const char *id);
/* Removes results that no host has asked for in a long time. */
void spool_sweep(void);
