#include "store/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/manifest.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/system/sha256-file.h"
#include "util/json.h"
#include "util/str.h"

enum { DRAFT_TRIES = 20 };

/* A sweep may find the directory before we hold it, and delete it: then make another one. */
static int make_held_dir(struct draft *d, struct err *e)
{
	for (int i = 0; i < DRAFT_TRIES; i++) {
		auto_free char *dir = NULL;
		enum hold got;

		if (str_printf(&dir, e, "%s/tmp-XXXXXX", d->st->images) < 0)
			return -1;
		if (!mkdtemp(dir))
			return err_sys(e, errno, "%s", dir);
		got = hold_dir(dir, HOLD_SHARED, &d->hold, e);
		if (got == HOLD_OK) {
			d->dir = take_ptr(&dir);
			return 0;
		}
		if (got == HOLD_FAILED) {
			rmdir(dir);
			return -1;
		}
	}
	return err_set(e, ERR_INTERNAL, "cannot keep a directory in %s", d->st->images);
}

int draft_new(const struct store *st, struct draft **ret, struct err *e)
{
	auto_draft struct draft *d = calloc(1, sizeof(*d));

	if (!d)
		return err_oom(e);
	d->st = st;
	d->hold = -1;
	if (make_held_dir(d, e) < 0 || str_printf(&d->out, e, "%s/out", d->dir) < 0 ||
		str_printf(&d->work, e, "%s/work", d->dir) < 0 || dir_make(d->out, 0700, e) < 0 ||
		dir_make(d->work, 0700, e) < 0)
		return -1;
	*ret = take_ptr(&d);
	return 0;
}

void draft_free(struct draft *d)
{
	struct err ignored; /* a later sweep deletes the rest */

	if (!d)
		return;
	if (d->dir)
		catalog_delete_dir(d->st, d->dir, &ignored);
	if (d->hold >= 0)
		close(d->hold);
	free(d->dir);
	free(d->out);
	free(d->work);
	free(d);
}

int draft_take_files(struct draft *d, const char *from_dir, const json_t *m, struct err *e)
{
	const char *names[MANIFEST_FILES_MAX];
	unsigned n = manifest_files(m, names);

	for (unsigned i = 0; i < n; i++) {
		auto_free char *from = NULL, *to = NULL;

		if (str_printf(&from, e, "%s/%s", from_dir, names[i]) < 0 ||
			str_printf(&to, e, "%s/%s", d->out, names[i]) < 0)
			return -1;
		if (!path_exists(to) && link(from, to) < 0)
			return err_sys(e, errno, "%s", to);
	}
	return 0;
}

/* Checks, hashes and syncs one file of the image; adds its size on disk. */
static int seal_file(const struct op *op, const char *dir, const char *name, json_t *files,
	uint64_t *size, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	char hex[SHA256_HEX + 1];
	auto_fd int fd = -1;
	struct stat st;

	if (str_printf(&path, e, "%s/%s", dir, name) < 0 ||
		str_printf(&text, e, "checking %s", name) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", name);
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return err_set(e, ERR_INVALID, "%s is not a file, or empty", name);
	if (sha256_file(op, fd, text, hex, e) < 0)
		return err_wrap(e, "%s", name);
	if (fchmod(fd, 0444) < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "%s", name);
	*size += (uint64_t)st.st_blocks * 512;
	return json_object_set_new(files, name, json_string(hex)) < 0 ? err_oom(e) : 0;
}

static int sync_dir(const char *path, struct err *e)
{
	auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "sync %s", path);
	return 0;
}

/* Removes all files that the manifest does not name. */
static int remove_others(const char *dir, const char *const *keep, unsigned n_keep, struct err *e)
{
	auto_dir DIR *d = opendir(dir);
	struct dirent *ent;

	if (!d)
		return err_sys(e, errno, "%s", dir);
	while ((ent = readdir(d))) {
		auto_free char *path = NULL;
		bool kept = strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0;

		for (unsigned i = 0; i < n_keep; i++)
			kept |= strcmp(ent->d_name, keep[i]) == 0;
		if (kept)
			continue;
		if (str_printf(&path, e, "%s/%s", dir, ent->d_name) < 0)
			return -1;
		if (unlink(path) < 0 && (errno != EISDIR || dir_remove(path, e) < 0))
			return err_sys(e, errno, "%s", path);
	}
	return 0;
}

/* Checks the draft's files and writes the final manifest.json. */
static int seal(const struct op *op, const char *dir, json_t *m, char ret_digest[SHA256_HEX + 1],
	struct err *e)
{
	const char *names[MANIFEST_FILES_MAX];
	unsigned n = manifest_files(m, names);
	auto_free char *path = NULL, *text = NULL;
	json_t *files = json_object();
	uint64_t size = 0;

	if (!files || json_object_set_new(m, "files", files) < 0)
		return err_oom(e);
	if (remove_others(dir, names, n, e) < 0)
		return -1;
	for (unsigned i = 0; i < n; i++)
		if (seal_file(op, dir, names[i], files, &size, e) < 0)
			return -1;
	if (manifest_digest(m, ret_digest, e) < 0)
		return -1;
	if (json_object_set_new(m, "digest", json_string(ret_digest)) < 0 ||
		json_object_set_new(m, "created", json_integer(time(NULL))) < 0 ||
		json_object_set_new(m, "size", json_integer((json_int_t)size)) < 0)
		return err_oom(e);
	text = json_dumps(m, JSON_INDENT(2) | JSON_SORT_KEYS);
	if (!text)
		return err_oom(e);
	if (str_printf(&path, e, "%s/manifest.json", dir) < 0 ||
		file_write_atomic(path, text, strlen(text), 0444, e) < 0)
		return -1;
	return sync_dir(dir, e);
}

/* Moves d->out to its place in the store. If an image with the same content exists, that one is
 * used. */
static int publish(
	const struct op *op, struct draft *d, const char *dir, int *ret_hold, struct err *e)
{
	for (;;) {
		auto_fd int own = -1;
		int got;

		if (hold_dir(d->out, HOLD_SHARED, &own, e) != HOLD_OK)
			return err_set(e, ERR_INTERNAL, "%s: cannot hold it", d->out);
		if (rename(d->out, dir) == 0) {
			*ret_hold = take_fd(&own);
			return sync_dir(d->st->images, e);
		}
		if (errno != EEXIST && errno != ENOTEMPTY)
			return err_sys(e, errno, "%s", dir);
		got = hold_wait(op, dir, ret_hold, e);
		if (got != 0)
			return got < 0 ? -1 : 0;
	}
}

/* Gives an image the name. The caller holds the image. */
static int name_held(
	struct draft *d, const char *digest, const char *name, struct image **ret, struct err *e)
{
	auto_image struct image *img = NULL;
	char before[SHA256_HEX + 1];
	struct err ignored;
	int had = catalog_name_get(d->st, name, before, &ignored);

	if (catalog_load(d->st, digest, name, &img, e) < 0 ||
		catalog_name_set(d->st, d->dir, name, digest, e) < 0 ||
		sync_dir(d->st->names, e) < 0)
		return -1;
	if (had == 1 &&
		strcmp(before, digest) != 0) /* if it is in use, store_unuse removes it later */
		catalog_drop_unnamed(d->st, before, &ignored);
	*ret = take_ptr(&img);
	return 0;
}

int draft_commit(const struct op *op, struct draft *d, json_t *m, const char *name,
	struct image **ret, struct err *e)
{
	char digest[SHA256_HEX + 1];
	auto_free char *dir = NULL;
	auto_fd int hold = -1;

	if (seal(op, d->out, m, digest, e) < 0 || catalog_image_dir(d->st, digest, &dir, e) < 0 ||
		publish(op, d, dir, &hold, e) < 0)
		return -1;
	return name_held(d, digest, name, ret, e);
}

int draft_name_existing(const struct op *op, struct draft *d, const char *digest, const char *name,
	struct image **ret, struct err *e)
{
	auto_free char *dir = NULL;
	auto_fd int hold = -1;
	int got;

	if (catalog_image_dir(d->st, digest, &dir, e) < 0)
		return -1;
	got = hold_wait(op, dir, &hold, e);
	if (got != 1)
		return got;
	return name_held(d, digest, name, ret, e) < 0 ? -1 : 1;
}

static bool same_member(const json_t *a, const json_t *b, const char *name)
{
	json_t *x = json_object_get(a, name), *y = json_object_get(b, name);

	return x && y ? json_equal(x, y) : x == y;
}

int draft_reuse(const struct op *op, struct draft *d, const json_t *m, const char *name,
	struct image **ret, struct err *e)
{
	static const char *const members[] = {
		"source", "os_type", "firmware", "user", "description"};
	auto_name_list struct name_list digests = {0};

	if (catalog_digests(d->st, &digests, e) < 0)
		return -1;
	for (size_t i = 0; i < digests.n; i++) {
		auto_json json_t *its = NULL;
		struct err ignored; /* a damaged image cannot be reused */
		bool same = catalog_manifest(d->st, digests.items[i], &its, &ignored) == 0;
		int got;

		for (unsigned k = 0; same && k < ARRAY_LEN(members); k++)
			same = same_member(m, its, members[k]);
		got = same ? draft_name_existing(op, d, digests.items[i], name, ret, e) : 0;
		if (got != 0)
			return got;
	}
	return 0;
}
