/*
 * templates.h - saved running VMs, from which others of the same kind start. Thread-safe; several
 * daemons may share one data directory, as with images.
 *
 *   DATA_DIR/templates/KEY/     ram (sparse), state, disk.qcow2, manifest.json, lock, used
 *   DATA_DIR/templates/busy/    KEY: its lock is held by the maker of that template
 *   DATA_DIR/templates/tmp-*    a template being made (its lock is held), or what is left of one
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

#include "util/thread/op.h"
#include "wire/sha256.h"

/* The version of the files' format. It is part of each key, and a sweep removes templates of older
 * versions. */
enum { TEMPLATE_FORMAT = 2 };

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

/* 1: *ret is whole and checked. 0: there is no such template; a damaged one has been removed. */
int templates_take(struct templates *ts, const struct op *op, const char *key,
	struct template **ret, struct err *e);
/* Another reference to a template that the caller has. */
struct template *templates_again(struct templates *ts, struct template *t);
void templates_give(struct templates *ts, struct template *t); /* NULL is fine */

/* Claims the making of this template, waiting until no other does. Closing *ret_fd ends the claim.
 */
int templates_claim(
	struct templates *ts, const struct op *op, const char *key, int *ret_fd, struct err *e);

/* A template that is being made. Its maker fills the directory: "state", "disk.qcow2". */
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
/* Removes a draft that was not published. Fine on a zeroed or a published one. */
void templates_discard(struct template_draft *draft);

/*
 * Notes that making the template failed after so long. It would probably fail again, so nobody
 * tries for a hundred times as long. Not for ever: its QEMU may have been killed, or the host may
 * have been in trouble.
 */
void templates_note_failure(
	struct templates *ts, const char *key, int64_t took_ns, const struct err *why);
/* Whether making the template failed not long ago; e says why. */
bool templates_failed(struct templates *ts, const char *key, struct err *e);

/* Array of objects: what "about" said, "key", "size", "used" (unix time), "in_memory". */
int templates_list(struct templates *ts, json_t **ret, struct err *e);
/* ERR_NOT_FOUND, or ERR_BUSY while VMs use it. key may be a unique beginning. */
int templates_remove(struct templates *ts, const char *key, uint64_t *ret_freed, struct err *e);
/* Removes templates that have another format or of which stale() says that they are of no use, if
 * nobody uses them, and what makers that died left. */
int templates_sweep(struct templates *ts, bool (*stale)(void *arg, const json_t *about), void *arg,
	void (*said)(void *arg, const char *text), void *said_arg, struct err *e);
