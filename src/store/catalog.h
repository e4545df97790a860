/*
 * catalog.h - what is where below DATA_DIR/images, for the files of this folder.
 *
 *   sha256-DIGEST/   an image: its files, manifest.json, lock
 *   names/NAME       the digest of the image that has that name
 *   busy/NAME        held alone by whoever builds, imports or removes that name
 *   tmp-XXXXXX/      a build under way (held) or the rest of one that was killed
 *   dead-*           being deleted: whoever sees it may go on with that
 *   log/NAME.log     what the last build of NAME printed
 *
 * The rules that make it safe for any number of processes: an image appears and disappears by
 * rename; whoever points a name at an image holds it shared, as its users do; whoever removes it
 * holds it alone. So a hold that was got shared is good for as long as it lasts.
 */
#pragma once

#include <jansson.h>

#include "store/hold.h"
#include "util/sha256.h"
#include "store/store.h"

struct store { /* fixed by store_open */
	char *images, *names, *busy, *logs;
	char *own_recipes; /* DATA_DIR/recipes: the user's; they win over those of moat */
	char *cache, *recipes, *helper_path;
};

struct name_list {
	char **items; /* sorted */
	size_t n;
};
int name_list_add(struct name_list *list, const char *name, struct err *e);
void name_list_free(struct name_list *list);
#define auto_name_list __attribute__((cleanup(name_list_free)))

int catalog_image_dir(const struct store *st, const char *digest, char **ret, struct err *e);
/* 1 and the digest, 0 if there is no such name. */
int catalog_name_get(
	const struct store *st, const char *name, char ret_digest[SHA256_HEX + 1], struct err *e);
/* scratch: a directory of the caller in the same file system, which is swept if we are killed. */
int catalog_name_set(const struct store *st, const char *scratch, const char *name,
	const char *digest, struct err *e);
/* All names, or those of one image if digest is not NULL. */
int catalog_names(const struct store *st, const char *digest, struct name_list *ret, struct err *e);
/* The digests of all images, with and without a name. */
int catalog_digests(const struct store *st, struct name_list *ret, struct err *e);
/* Directory entries whose name begins so. */
int catalog_entries(const char *dir, const char *prefix, struct name_list *ret, struct err *e);

int catalog_load(const struct store *st, const char *digest, const char *name, struct image **ret,
	struct err *e);
int catalog_manifest(const struct store *st, const char *digest, json_t **ret, struct err *e);

/* Waits until nobody else builds, imports or removes that name. */
int catalog_claim_name(
	const struct store *st, const struct op *op, const char *name, int *ret_fd, struct err *e);
/* ERR_BUSY instead of waiting. */
int catalog_try_claim_name(const struct store *st, const char *name, int *ret_fd, struct err *e);
void catalog_release_name(const struct store *st, const char *name, int fd);

/* Renames dir out of the way and deletes it. The caller holds it alone, or made it. */
int catalog_delete_dir(const struct store *st, const char *dir, struct err *e);
/* Goes on with deletions that were interrupted, and deletes builds whose process is dead. */
int catalog_sweep(
	const struct store *st, void (*said)(void *, const char *), void *arg, struct err *e);
/* Deletes an image if it has no name and nobody uses it: 1; otherwise 0. */
int catalog_drop_unnamed(const struct store *st, const char *digest, struct err *e);
