/*
 * templates.h - saved running VMs, from which others of the same kind start. Thread-safe; several
 * daemons may share one data directory, as with images.
 *
 *   DATA_DIR/templates/KEY/     ram (sparse), state, disk.qcow2, manifest.json, lock, used
 *   DATA_DIR/templates/busy/    KEY: held alone by whoever makes that template
 *   DATA_DIR/templates/tmp-*    one being made (its lock is held) or the rest of one
 *
 * How it works: a key says everything that a saved VM depends on, so a template never changes. On
 * disk it survives the daemon. In memory its RAM is a write-sealed memfd, filled at the first use
 * and checked against the manifest on the way; all VMs that start from it map it copy-on-write. An
 * idle template keeps its memory for a while, within bounds.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/op.h"
#include "util/sha256.h"

struct templates;

struct template
{ /* read-only; lives until templates_give */
	char key[SHA256_HEX + 1];
	int ram_fd; /* sealed */
	uint64_t ram_size;
	char *dir, *state, *disk; /* paths; disk NULL: it has none */
};

struct templates_config {
	const char *data_dir;
	uint64_t disk_max;   /* bytes of all templates together; the least used go first */
	uint64_t memory_max; /* bytes that templates may keep in memory while no VM uses them */
};
int templates_open(const struct templates_config *cfg, struct templates **ret, struct err *e);
void templates_close(struct templates *ts); /* NULL is fine */

/* 1: *ret is there, whole and checked. 0: there is none; a broken one has been removed. */
int templates_take(struct templates *ts, const struct op *op, const char *key,
	struct template **ret, struct err *e);
/* Another reference to one that the caller has. */
struct template *templates_again(struct templates *ts, struct template *t);
void templates_give(struct templates *ts, struct template *t); /* NULL is fine */

/* Waits until nobody else makes this template. Closing *ret_fd ends the claim. */
int templates_claim(
	struct templates *ts, const struct op *op, const char *key, int *ret_fd, struct err *e);

/* One that is being made. Its directory is the maker's to fill: "state", "disk.qcow2". */
struct template_draft {
	char *dir;
	int lock_fd;
	int ram_fd; /* memfd of that size, to be filled */
	uint64_t ram_size;
};
int templates_draft(
	struct templates *ts, uint64_t ram_size, struct template_draft *ret, struct err *e);
/*
 * Seals and saves the memory, and gives the directory its name. about: an object that
 * templates_list shows, with "image" (digest). Nothing may have the memory mapped any more.
 */
int templates_publish(struct templates *ts, const struct op *op, struct template_draft *draft,
	const char *key, json_t *about, struct err *e);
/* Removes what was not published. Fine on a zeroed one. */
void templates_discard(struct template_draft *draft);

/*
 * Making it failed after so long, and probably would again: nobody tries for a hundred times as
 * long. But somebody may only have killed its QEMU, or the host may have been in trouble.
 */
void templates_note_failure(
	struct templates *ts, const char *key, int64_t took_ns, const struct err *why);
/* True: it failed before, not long ago, and e says why. */
bool templates_failed(struct templates *ts, const char *key, struct err *e);

/* Array of objects: what "about" said, "key", "size", "used" (unix time), "in_memory". */
int templates_list(struct templates *ts, json_t **ret, struct err *e);
/* ERR_NOT_FOUND, or ERR_BUSY while VMs use it. key may be a unique beginning. */
int templates_remove(struct templates *ts, const char *key, uint64_t *ret_freed, struct err *e);
/* Removes what stale() says is of no use, if nobody uses it, and what makers that died left. */
int templates_sweep(struct templates *ts, bool (*stale)(void *arg, const json_t *about), void *arg,
	void (*said)(void *arg, const char *text), void *said_arg, struct err *e);

/* Pure: a checksum against accidents, not against enemies. */
struct sum64 {
	uint64_t lane[4];
	uint64_t total;
};
void sum64_start(struct sum64 *s);
void sum64_add(
	struct sum64 *s, const void *p, size_t n); /* n: a multiple of 32, but for the last */
uint64_t sum64_end(const struct sum64 *s);
