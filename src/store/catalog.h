/*
 * catalog.h - the files below DATA_DIR/images. For the files of this folder; thread-safe, as
 * store.h.
 *
 *   sha256-DIGEST/   an image: its files, manifest.json, lock
 *   names/NAME       the digest of the image with that name
 *   busy/NAME        held alone by the process that builds, imports or removes that name
 *   tmp-XXXXXX/      a build: held while it runs; otherwise it was killed
 *   dead-*           being deleted: any process may continue that
 *   log/NAME.log     output of the last build of NAME
 *   blobs/DIGEST     layers of container images, for the next that has them (oci/blobs.h)
 *   container-builds/  what builds of container images keep for the next (oci/build.c)
 *
 * Where a file is named after a NAME, a '/' in it is a '%'.
 *
 * Rules that make this safe for any number of processes: an image appears and disappears by rename.
 * A process that gives an image a name holds the image shared, as its users do. A process that
 * removes an image holds it alone. So an image stays as long as a process holds it shared.
 */
#pragma once

#include <jansson.h>

#include "store/hold.h"
#include "wire/sha256.h"
#include "store/store.h"

#define CATALOG_DOWNLOADS "downloads" /* in the cache directory */

struct store { /* does not change after store_open */
	char *images, *names, *busy, *logs, *blobs, *builds;
	char *own_recipes; /* DATA_DIR/recipes: the user's recipes, which replace moat's of the same
			      name */
	char *cache, *recipes, *helper_path, *mirror, *auth_file, *proxmox_repository;
	uint64_t download_max;                    /* bytes; 0: any */
	uint64_t container_disk, container_cache; /* bytes */
};

struct name_list {
	char **items; /* sorted */
	size_t n;
};
int name_list_add(struct name_list *list, const char *name, struct err *e);
void name_list_free(struct name_list *list);
#define auto_name_list __attribute__((cleanup(name_list_free)))

int catalog_image_dir(const struct store *st, const char *digest, char **ret, struct err *e);
int catalog_name_path(const struct store *st, const char *name, char **ret, struct err *e);
int catalog_log_path(const struct store *st, const char *name, char **ret, struct err *e);
/* Returns 1 and the digest, 0 if there is no such name. */
int catalog_name_get(
	const struct store *st, const char *name, char ret_digest[SHA256_HEX + 1], struct err *e);
/* scratch: a directory of the caller in the same file system; a sweep deletes it if we are
 * killed. */
int catalog_name_set(const struct store *st, const char *scratch, const char *name,
	const char *digest, struct err *e);
/* All names, or those of one image if digest is not NULL. */
int catalog_names(const struct store *st, const char *digest, struct name_list *ret, struct err *e);
/* The digests of all images, with and without a name. */
int catalog_digests(const struct store *st, struct name_list *ret, struct err *e);
/* The entries of a directory whose names begin with prefix. */
int catalog_entries(const char *dir, const char *prefix, struct name_list *ret, struct err *e);

int catalog_load(const struct store *st, const char *digest, const char *name, struct image **ret,
	struct err *e);
int catalog_manifest(const struct store *st, const char *digest, json_t **ret, struct err *e);

/* Waits until no other process builds, imports or removes that name, and claims it. *ret_fd: the
 * claim, for catalog_release_name. */
int catalog_claim_name(
	const struct store *st, const struct op *op, const char *name, int *ret_fd, struct err *e);
/* Like catalog_claim_name, but fails with ERR_BUSY instead of waiting. */
int catalog_try_claim_name(const struct store *st, const char *name, int *ret_fd, struct err *e);
void catalog_release_name(const struct store *st, const char *name, int fd);

/* Renames dir and deletes it. The caller holds it alone, or made it. */
int catalog_delete_dir(const struct store *st, const char *dir, struct err *e);
/* Continues deletions that were interrupted, and deletes builds whose process is dead. report()
 * gets a line for each; it may be NULL. */
int catalog_sweep(
	const struct store *st, void (*report)(void *, const char *), void *arg, struct err *e);
/* Deletes an image if it has no name and no user. Returns 1 if it did, else 0. */
int catalog_drop_unnamed(const struct store *st, const char *digest, struct err *e);
