#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/catalog.h"
#include "store/cloud.h"
#include "store/manifest.h"
#include "store/ref.h"
#include "store/recipe.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

enum { PREFIX_MIN = 4 };

struct image_use {
	const struct store *st;
	int hold;
	char digest[SHA256_HEX + 1];
};

static int make_dirs(const struct store *st, struct err *e)
{
	return dir_make(st->names, 0700, e) < 0 || dir_make(st->busy, 0700, e) < 0 ||
			       dir_make(st->logs, 0700, e) < 0
		       ? -1
		       : 0;
}

int store_open(const struct store_config *cfg, struct store **ret, struct err *e)
{
	struct store *st = calloc(1, sizeof(*st));
	struct err ignored;

	if (!st)
		return err_oom(e);
	st->download_max = cfg->download_max;
	if (str_printf(&st->images, e, "%s/images", cfg->data_dir) < 0 ||
		str_printf(&st->names, e, "%s/names", st->images) < 0 ||
		str_printf(&st->busy, e, "%s/busy", st->images) < 0 ||
		str_printf(&st->logs, e, "%s/log", st->images) < 0 ||
		str_printf(&st->blobs, e, "%s/blobs", st->images) < 0 ||
		str_printf(&st->builds, e, "%s/container-builds", st->images) < 0 ||
		str_printf(&st->own_recipes, e, "%s/recipes", cfg->data_dir) < 0 ||
		str_dup(cfg->cache_dir, &st->cache, e) < 0 ||
		str_dup(cfg->recipe_dir, &st->recipes, e) < 0 ||
		str_dup(cfg->helper_path, &st->helper_path, e) < 0 ||
		str_dup(cfg->mirror ? cfg->mirror : "", &st->mirror, e) < 0 ||
		str_dup(cfg->auth_file ? cfg->auth_file : "", &st->auth_file, e) < 0 ||
		str_dup(cfg->proxmox_repository ? cfg->proxmox_repository : "",
			&st->proxmox_repository, e) < 0 ||
		make_dirs(st, e) < 0) {
		store_close(st);
		return err_wrap(e, "image store");
	}
	st->container_disk = cfg->container_disk ? cfg->container_disk : (uint64_t)20 << 30;
	st->container_cache = cfg->container_cache;
	/* A failure to delete is no reason not to start: store_gc reports it. */
	catalog_sweep(st, NULL, NULL, &ignored);
	*ret = st;
	return 0;
}

void store_close(struct store *st)
{
	if (!st)
		return;
	free(st->images);
	free(st->names);
	free(st->busy);
	free(st->logs);
	free(st->blobs);
	free(st->builds);
	free(st->own_recipes);
	free(st->cache);
	free(st->recipes);
	free(st->helper_path);
	free(st->mirror);
	free(st->auth_file);
	free(st->proxmox_repository);
	free(st);
}

static int not_found(const struct store *st, const char *ref, struct err *e)
{
	auto_free char *recipe = NULL;
	char shown[128];

	str_escape(ref, strlen(ref), shown, sizeof(shown));
	if (recipe_find(st, ref, &recipe, e) == 0 || proxmox_find(ref))
		return err_set(e, ERR_NOT_FOUND,
			"no image \"%s\"; build it with: moat image build %s", shown, shown);
	if (oci_ref_is_meant(ref) && !str_starts(ref, "sha256:"))
		return err_set(e, ERR_NOT_FOUND, "no image \"%s\"; get it with: moat image pull %s",
			shown, shown);
	if (cloud_find(ref))
		return err_set(e, ERR_NOT_FOUND,
			"no image \"%s\"; download it with: moat image pull %s", shown, shown);
	return err_set(
		e, ERR_NOT_FOUND, "no image \"%s\"; see what there is: moat image ls", shown);
}

/* Returns 1 and the digest if exactly one image's digest begins like that, 0 if none does. */
static int find_by_prefix(
	const struct store *st, const char *ref, char ret_digest[SHA256_HEX + 1], struct err *e)
{
	auto_name_list struct name_list digests = {0};
	const char *prefix = ref;
	unsigned found = 0;

	if (str_starts(ref, "sha256:") || str_starts(ref, "sha256-"))
		prefix += strlen("sha256:");
	if (strlen(prefix) < PREFIX_MIN || prefix[strspn(prefix, "0123456789abcdef")])
		return 0;
	if (catalog_digests(st, &digests, e) < 0)
		return -1;
	for (size_t i = 0; i < digests.n; i++) {
		if (!str_starts(digests.items[i], prefix))
			continue;
		memcpy(ret_digest, digests.items[i], SHA256_HEX + 1);
		found++;
	}
	if (found > 1)
		return err_set(e, ERR_INVALID,
			"%u images have a digest that begins with %s: "
			"give more digits",
			found, prefix);
	return (int)found;
}

/* Finds the digest of ref. *ret_name is ref itself if it is a name, or the image's name, or "". */
static int resolve(const struct store *st, const char *ref, char ret_digest[SHA256_HEX + 1],
	char **ret_name, struct err *e)
{
	auto_name_list struct name_list names = {0};
	struct oci_ref container;
	const char *name = ref;
	struct err ignored;
	int got = 0;

	/* A digest that begins with "sha256:" reads as a name with a tag, too. */
	if (check_image_name(ref, &ignored) == 0)
		got = catalog_name_get(st, ref, ret_digest, e);
	else if (oci_ref_is_meant(ref) && oci_ref_read(ref, &container, &ignored) == 0)
		got = catalog_name_get(st, name = container.text, ret_digest, e);
	if (got < 0)
		return -1;
	if (got)
		return str_dup(name, ret_name, e);
	got = find_by_prefix(st, ref, ret_digest, e);
	if (got <= 0)
		return got < 0 ? -1 : not_found(st, ref, e);
	if (catalog_names(st, ret_digest, &names, e) < 0)
		return -1;
	return str_dup(names.n ? names.items[0] : "", ret_name, e);
}

/* An image can be replaced between looking up its name and reading it: then look it up again. */
int store_find(struct store *st, const char *ref, struct image **ret, struct err *e)
{
	for (int tries = 0;; tries++) {
		char digest[SHA256_HEX + 1];
		auto_free char *name = NULL;

		if (resolve(st, ref, digest, &name, e) < 0)
			return -1;
		if (catalog_load(st, digest, name, ret, e) == 0)
			return 0;
		if (e->kind != ERR_NOT_FOUND)
			return err_wrap(e, "image %s", ref);
		if (tries == 3) /* the image's files were deleted, but not the name */
			return not_found(st, ref, e);
	}
}

static int list_add(struct image_list *list, struct image *img, struct err *e)
{
	struct image **more = realloc(list->items, (list->n + 1) * sizeof(*more));

	if (!more) {
		image_free(img);
		return err_oom(e);
	}
	list->items = more;
	more[list->n++] = img;
	return 0;
}

int store_list(struct store *st, const struct image_problems *problems, struct image_list *ret,
	struct err *e)
{
	auto_image_list struct image_list list = {0};
	auto_name_list struct name_list names = {0};

	if (catalog_names(st, NULL, &names, e) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		struct image *img = NULL;

		if (store_find(st, names.items[i], &img, e) < 0) {
			if (e->kind == ERR_NOT_FOUND) /* it was removed in this moment */
				continue;
			if (!problems || err_is_shortage(e))
				return -1;
			problems->report(problems->arg, names.items[i], e);
			continue;
		}
		if (list_add(&list, img, e) < 0)
			return -1;
	}
	*ret = list;
	list = (struct image_list){0};
	return 0;
}

/* Holds an image shared. Returns 0 if it was removed in this moment. A process that tries to remove
 * it may hold it alone for a moment: wait for that. */
static int hold_for_use(const char *dir, const char *ref, int *ret_fd, struct err *e)
{
	struct op brief = op_for_cleanup(2);
	int got = hold_wait(&brief, dir, ret_fd, e);

	if (got < 0 && e->kind == ERR_TIMEOUT)
		return err_set(e, ERR_BUSY, "image %s is being removed", ref);
	return got;
}

int store_use(struct store *st, const char *ref, struct image **ret, struct image_use **ret_use,
	struct err *e)
{
	for (int tries = 0;; tries++) {
		auto_free char *name = NULL, *dir = NULL;
		char digest[SHA256_HEX + 1];
		auto_fd int hold = -1;
		struct image_use *use;
		int got;

		if (resolve(st, ref, digest, &name, e) < 0 ||
			catalog_image_dir(st, digest, &dir, e) < 0)
			return -1;
		got = hold_for_use(dir, ref, &hold, e);
		if (got < 0)
			return -1;
		if (got == 0 && tries < 3)
			continue;
		use = calloc(1, sizeof(*use));
		if (!use)
			return err_oom(e);
		if (got == 0 || catalog_load(st, digest, name, ret, e) < 0) {
			free(use);
			return got == 0 ? not_found(st, ref, e) : err_wrap(e, "image %s", ref);
		}
		*use = (struct image_use){.st = st, .hold = take_fd(&hold)};
		memcpy(use->digest, digest, sizeof(digest));
		*ret_use = use;
		return 0;
	}
}

void store_unuse(struct image_use *use)
{
	struct err ignored; /* store_gc finds what stays */

	if (!use)
		return;
	close(use->hold);
	/* While it was in use, a newer image may have taken its name. */
	catalog_drop_unnamed(use->st, use->digest, &ignored);
	free(use);
}

/* All names of an image, claimed so that no build gives one to another image meanwhile. */
struct claims {
	const struct store *st;
	struct name_list names;
	int *fds;
	size_t n;
};

static void claims_free(struct claims *c)
{
	for (size_t i = 0; i < c->n; i++)
		catalog_release_name(c->st, c->names.items[i], c->fds[i]);
	free(c->fds);
	name_list_free(&c->names);
}

/* Claims the names, and takes the list. */
static int claims_take(struct claims *c, struct name_list *names, struct err *e)
{
	c->names = *names;
	*names = (struct name_list){0};
	c->fds = calloc(c->names.n + 1, sizeof(int));
	if (!c->fds)
		return err_oom(e);
	for (; c->n < c->names.n; c->n++)
		if (catalog_try_claim_name(c->st, c->names.items[c->n], &c->fds[c->n], e) < 0)
			return -1;
	return 0;
}

/* Removes the claimed names that still belong to this image. */
static int drop_names(const struct claims *c, const char *digest, struct err *e)
{
	for (size_t i = 0; i < c->n; i++) {
		auto_free char *path = NULL;
		char now[SHA256_HEX + 1];
		int got = catalog_name_get(c->st, c->names.items[i], now, e);

		if (got < 0)
			return -1;
		if (got == 0 || strcmp(now, digest) != 0)
			continue;
		if (catalog_name_path(c->st, c->names.items[i], &path, e) < 0)
			return -1;
		if (unlink(path) < 0 && errno != ENOENT)
			return err_sys(e, errno, "%s", path);
	}
	return 0;
}

static int remove_whole(const struct claims *c, const char *digest, const char *ref,
	uint64_t *ret_freed, struct err *e)
{
	auto_free char *dir = NULL;
	auto_image struct image *img = NULL;
	auto_fd int hold = -1;
	struct err ignored;
	enum hold got;

	if (catalog_image_dir(c->st, digest, &dir, e) < 0)
		return -1;
	got = hold_dir(dir, HOLD_ALONE, &hold, e);
	if (got == HOLD_BUSY)
		return err_set(e, ERR_BUSY,
			"image %s is in use: remove the sandboxes that run on it first", ref);
	if (got == HOLD_FAILED || drop_names(c, digest, e) < 0)
		return -1;
	if (got == HOLD_OK && catalog_load(c->st, digest, "", &img, &ignored) < 0)
		img = NULL; /* a damaged image can be removed too */
	if (got == HOLD_OK && catalog_delete_dir(c->st, dir, e) < 0)
		return err_wrap(e, "image %s", ref);
	*ret_freed = img ? img->size : 0;
	return 0;
}

int store_remove(struct store *st, const char *ref, uint64_t *ret_freed, struct err *e)
{
	__attribute__((cleanup(claims_free))) struct claims claims = {.st = st};
	auto_name_list struct name_list names = {0}, one = {0};
	char digest[SHA256_HEX + 1];
	auto_free char *name = NULL;
	struct err ignored;
	bool others_stay;

	if (resolve(st, ref, digest, &name, e) < 0 || catalog_names(st, digest, &names, e) < 0)
		return -1;
	/* By a name, in whatever form, only that one goes. */
	others_stay =
		names.n > 1 &&
		(strcmp(name, ref) == 0 || (oci_ref_is_meant(ref) && !str_starts(ref, "sha256:")));
	if (name_list_add(&one, name, e) < 0 ||
		claims_take(&claims, others_stay ? &one : &names, e) < 0)
		return -1;
	if (!others_stay)
		return remove_whole(&claims, digest, ref, ret_freed, e);
	if (drop_names(&claims, digest, e) < 0)
		return -1;
	catalog_drop_unnamed(st, digest, &ignored); /* it may just have lost its last name */
	*ret_freed = 0;
	return 0;
}

int store_gc(struct store *st, const struct op *op, void (*report)(void *arg, const char *text),
	void *arg, struct err *e)
{
	auto_name_list struct name_list digests = {0};
	int rc = catalog_sweep(st, report, arg, e);

	if (rc < 0 || catalog_digests(st, &digests, e) < 0)
		return err_wrap(e, "image store");
	for (size_t i = 0; i < digests.n; i++) {
		char text[128];

		if (op_check(op, e) < 0)
			return -1;
		rc = catalog_drop_unnamed(st, digests.items[i], e);
		if (rc < 0)
			return err_wrap(e, "image store");
		snprintf(text, sizeof(text), "image %.12s, which had no name", digests.items[i]);
		if (rc == 1 && report)
			report(arg, text);
	}
	return 0;
}
