/*
 * spool.h - what waits in the guest for the host to fetch it through the guest agent: a directory
 * beside the program, with one directory for each result, which holds base64 text in files "0", "1"
 * and so on (each as large as one agent call carries), or "NAME.0" and so on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SPOOL_CHUNK = 48 * 1024, /* divides ARMOUR_PART, a multiple of 3 */
	SPOOL_PATH_MAX = 4096,
};

/* Before the process leaves the agent's mount namespace: the agent must see the same files. 0 or
 * an errno. Done before, it does nothing. */
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
/* 0 or an errno; after a failure only spool_drop. */
int spool_add(struct spool_writer *w, const void *p, size_t n);
int spool_end(struct spool_writer *w);
void spool_drop(struct spool_writer *w);

/* Empties both into a new directory; what WIRE_EXIT is to say of it, malloc'd. NULL: it cannot be
 * done, and they are as they were. */
struct ring;
char *spill_out(struct ring *out, struct ring *err);

/* Removes a result, and the parts of a request, which lie beside it. A missing one is fine, a
 * running command's stays. */
void spool_forget(const char *id);
/* Removes results that nobody has asked for in a long time. */
void spool_sweep(void);
