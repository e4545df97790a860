#include <string.h>
#include <sys/stat.h>

#include "store/draft.h"
#include "store/make/install-proxmox.h"
#include "store/make/pull.h"
#include "store/manifest.h"
#include "store/recipe.h"
#include "store/store.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/str.h"

static int read_manifest(const char *dir, json_t **ret, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	if (str_printf(&path, e, "%s/manifest.json", dir) < 0)
		return -1;
	if (file_read(path, MANIFEST_SIZE_MAX, &text, &len, e) < 0 ||
		manifest_parse((struct bytes){(uint8_t *)text, len}, ret, e) < 0) {
		err_wrap(e, "the recipe made no good manifest.json");
		e->kind = ERR_BACKEND;
		return -1;
	}
	return 0;
}

/* Builds an image whose name the caller has claimed. */
static int build_claimed(struct store *st, const struct op *op, const char *name,
	const char *recipe, struct image **ret, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_free char *log = NULL;
	auto_json json_t *m = NULL;

	if (catalog_log_path(st, name, &log, e) < 0 || dir_make(st->cache, 0700, e) < 0 ||
		draft_new(st, &d, e) < 0)
		return -1;
	op_progress(op, 0, 0, "building %s", name);
	if (recipe_run(op, d, &(struct recipe_run){.path = recipe, .name = name, .log = log}, e) <
			0 ||
		read_manifest(d->out, &m, e) < 0)
		return -1;
	/* Only imports have a source, which the store writes itself. */
	json_object_del(m, "source");
	if (draft_commit(op, d, m, name, ret, e) < 0)
		return -1;
	return 0;
}

/* Identifies one writing of a name: it differs after the name was given again, to whatever
 * image. */
struct name_version {
	ino_t ino;
	struct timespec when;
};

static struct name_version name_version_of(const struct store *st, const char *name)
{
	auto_free char *path = NULL;
	struct err ignored;
	struct stat sb;

	if (catalog_name_path(st, name, &path, &ignored) < 0 || stat(path, &sb) < 0)
		return (struct name_version){0};
	return (struct name_version){sb.st_ino, sb.st_mtim};
}

static bool same_version(struct name_version a, struct name_version b)
{
	return a.ino == b.ino && a.when.tv_sec == b.when.tv_sec && a.when.tv_nsec == b.when.tv_nsec;
}

/* Returns 1 and the image if there is one of that name, else 0. */
static int find_existing(struct store *st, const char *name, struct image **ret, struct err *e)
{
	char digest[SHA256_HEX + 1];
	int got = catalog_name_get(st, name, digest, e);

	if (got <= 0)
		return got;
	if (store_find(st, name, ret, e) == 0)
		return 1;
	return e->kind == ERR_NOT_FOUND ? 0 : -1;
}

/* One of these makes the image of a name. */
struct maker {
	char *recipe;
	const struct cloud_image *cloud;
	const struct proxmox_release *proxmox;
};

static int find_maker(const struct store *st, const char *name, struct maker *ret, struct err *e)
{
	if (recipe_find(st, name, &ret->recipe, e) == 0)
		return 0;
	if (e->kind != ERR_NOT_FOUND)
		return -1;
	ret->cloud = cloud_find(name);
	ret->proxmox = proxmox_find(name);
	return ret->cloud || ret->proxmox ? 0 : -1;
}

static int make(struct store *st, const struct op *op, const char *name, const struct maker *by,
	bool rebuild, struct image **ret, struct err *e)
{
	if (by->cloud)
		return pull_claimed(st, op, by->cloud, name, rebuild, ret, e);
	if (by->proxmox)
		return install_proxmox(st, op, by->proxmox, ret, e);
	return build_claimed(st, op, name, by->recipe, ret, e);
}

int store_build(struct store *st, const struct op *op, const char *name, bool rebuild,
	struct image **ret, struct err *e)
{
	auto_free char *recipe = NULL;
	struct maker by = {0};
	struct name_version before;
	int claim = -1, got;

	if (check_image_name(name, e) < 0)
		return -1;
	before = name_version_of(st, name);
	got = rebuild ? 0 : find_existing(st, name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (find_maker(st, name, &by, e) < 0)
		return -1;
	recipe = by.recipe;
	if (catalog_claim_name(st, op, name, &claim, e) < 0)
		return -1;
	/* While we waited for the claim, another build may have made the image: use that, even for
	 * a rebuild. */
	got = 0;
	if (!rebuild || !same_version(before, name_version_of(st, name)))
		got = find_existing(st, name, ret, e);
	if (got == 0)
		got = make(st, op, name, &by, rebuild, ret, e);
	catalog_release_name(st, name, claim);
	return got < 0 ? err_wrap(e, "building %s", name) : 0;
}
