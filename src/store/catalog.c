#include "store/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/manifest.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/system/proc.h"
#include "util/str.h"

#define IMAGE_PREFIX "sha256-"
#define DRAFT_PREFIX "tmp-"
#define DEAD_PREFIX  "dead-"

enum { DELETE_TIMEOUT_S = 120 };

void name_list_free(struct name_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct name_list){0};
}

int name_list_add(struct name_list *list, const char *name, struct err *e)
{
	char **more = realloc(list->items, (list->n + 1) * sizeof(*more));

	if (!more)
		return err_oom(e);
	list->items = more;
	if (str_dup(name, &more[list->n], e) < 0)
		return -1;
	list->n++;
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int catalog_entries(const char *dir, const char *prefix, struct name_list *ret, struct err *e)
{
	auto_name_list struct name_list list = {0};
	auto_dir DIR *d = opendir(dir);
	struct dirent *ent;

	if (!d)
		return err_sys(e, errno, "%s", dir);
	while ((ent = readdir(d)))
		if (ent->d_name[0] != '.' && str_starts(ent->d_name, prefix) &&
			name_list_add(&list, ent->d_name, e) < 0)
			return -1;
	if (list.n)
		qsort(list.items, list.n, sizeof(*list.items), by_text);
	*ret = list;
	list = (struct name_list){0};
	return 0;
}

/* The file of a name: a container image's name has slashes, which a file's cannot have, and no '%'.
 */
static int name_path(const char *dir, const char *name, char **ret, struct err *e)
{
	size_t at = strlen(dir) + 1;

	if (str_printf(ret, e, "%s/%s", dir, name) < 0)
		return -1;
	for (char *c = *ret + at; *c; c++)
		*c = *c == '/' ? '%' : *c;
	return 0;
}

int catalog_name_path(const struct store *st, const char *name, char **ret, struct err *e)
{
	return name_path(st->names, name, ret, e);
}

int catalog_log_path(const struct store *st, const char *name, char **ret, struct err *e)
{
	auto_free char *file = NULL;

	return str_printf(&file, e, "%s.log", name) < 0 ? -1 : name_path(st->logs, file, ret, e);
}

static bool is_digest(const char *s)
{
	return strlen(s) == SHA256_HEX && strspn(s, "0123456789abcdef") == SHA256_HEX;
}

int catalog_image_dir(const struct store *st, const char *digest, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s/" IMAGE_PREFIX "%s", st->images, digest);
}

int catalog_name_get(
	const struct store *st, const char *name, char ret_digest[SHA256_HEX + 1], struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	if (catalog_name_path(st, name, &path, e) < 0)
		return -1;
	if (file_read(path, 2 * SHA256_HEX, &text, &len, e) < 0)
		return e->kind == ERR_NOT_FOUND ? 0 : -1;
	text[strcspn(text, "\n")] = 0;
	if (!is_digest(text))
		return err_set(e, ERR_INTERNAL, "%s is damaged: delete it", path);
	memcpy(ret_digest, text, SHA256_HEX + 1);
	return 1;
}

static int write_synced(const char *path, const char *text, struct err *e)
{
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n = (ssize_t)strlen(text);

	if (fd < 0 || write(fd, text, (size_t)n) != n || fsync(fd) < 0)
		return err_sys(e, errno, "%s", path);
	return 0;
}

int catalog_name_set(const struct store *st, const char *scratch, const char *name,
	const char *digest, struct err *e)
{
	auto_free char *draft = NULL, *path = NULL, *line = NULL;

	if (str_printf(&draft, e, "%s/name", scratch) < 0 ||
		catalog_name_path(st, name, &path, e) < 0 ||
		str_printf(&line, e, "%s\n", digest) < 0 || write_synced(draft, line, e) < 0)
		return -1;
	if (rename(draft, path) < 0)
		return err_sys(e, errno, "%s", path);
	return 0;
}

int catalog_names(const struct store *st, const char *digest, struct name_list *ret, struct err *e)
{
	auto_name_list struct name_list all = {0}, list = {0};

	if (catalog_entries(st->names, "", &all, e) < 0)
		return -1;
	for (size_t i = 0; i < all.n; i++) {
		char its[SHA256_HEX + 1];
		int got = catalog_name_get(st, all.items[i], its, e);

		if (got < 0)
			return -1;
		for (char *c = all.items[i]; *c; c++)
			*c = *c == '%' ? '/' : *c;
		if (got && (!digest || strcmp(its, digest) == 0) &&
			name_list_add(&list, all.items[i], e) < 0)
			return -1;
	}
	*ret = list;
	list = (struct name_list){0};
	return 0;
}

int catalog_digests(const struct store *st, struct name_list *ret, struct err *e)
{
	auto_name_list struct name_list dirs = {0}, list = {0};

	if (catalog_entries(st->images, IMAGE_PREFIX, &dirs, e) < 0)
		return -1;
	for (size_t i = 0; i < dirs.n; i++)
		if (is_digest(dirs.items[i] + strlen(IMAGE_PREFIX)) &&
			name_list_add(&list, dirs.items[i] + strlen(IMAGE_PREFIX), e) < 0)
			return -1;
	*ret = list;
	list = (struct name_list){0};
	return 0;
}

int catalog_manifest(const struct store *st, const char *digest, json_t **ret, struct err *e)
{
	auto_free char *dir = NULL, *path = NULL, *text = NULL;
	size_t len;

	if (catalog_image_dir(st, digest, &dir, e) < 0 ||
		str_printf(&path, e, "%s/manifest.json", dir) < 0)
		return -1;
	if (file_read(path, MANIFEST_SIZE_MAX, &text, &len, e) < 0)
		return -1;
	if (manifest_parse((struct bytes){(uint8_t *)text, len}, ret, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

int catalog_load(const struct store *st, const char *digest, const char *name, struct image **ret,
	struct err *e)
{
	auto_free char *dir = NULL;
	auto_json json_t *m = NULL;

	if (catalog_image_dir(st, digest, &dir, e) < 0 || catalog_manifest(st, digest, &m, e) < 0)
		return -1;
	if (manifest_to_image(m, dir, name, ret, e) < 0)
		return err_wrap(e, "%s", dir);
	return 0;
}

static enum hold claim(const struct store *st, const char *name, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL;
	enum hold got;

	if (name_path(st->busy, name, &path, e) < 0)
		return HOLD_FAILED;
	do {
		got = hold_file(path, HOLD_ALONE, ret_fd, e);
	} while (got == HOLD_GONE &&
		 path_exists(st->busy)); /* its holder deleted the file in this moment */
	return got;
}

int catalog_claim_name(
	const struct store *st, const struct op *op, const char *name, int *ret_fd, struct err *e)
{
	double pause = 0.02;

	for (bool waiting = false;; waiting = true) {
		enum hold got = claim(st, name, ret_fd, e);

		if (got == HOLD_OK)
			return 0;
		if (got == HOLD_GONE)
			return err_set(e, ERR_INTERNAL, "%s has gone", st->busy);
		if (got == HOLD_FAILED)
			return -1;
		if (!waiting)
			op_progress(op, 0, 0, "waiting for another build of %s", name);
		if (op_pause(op, pause, e) < 0)
			return err_wrap(e, "waiting for another build of %s", name);
		pause = pause < 0.5 ? pause * 1.5 : 0.5;
	}
}

int catalog_try_claim_name(const struct store *st, const char *name, int *ret_fd, struct err *e)
{
	enum hold got = claim(st, name, ret_fd, e);

	if (got == HOLD_BUSY)
		return err_set(e, ERR_BUSY, "image %s is being built or removed just now", name);
	if (got == HOLD_GONE)
		return err_set(e, ERR_INTERNAL, "%s has gone", st->busy);
	return got == HOLD_OK ? 0 : -1;
}

void catalog_release_name(const struct store *st, const char *name, int fd)
{
	auto_free char *path = NULL;
	struct err ignored;

	if (fd < 0)
		return;
	/* Delete the file while we hold it, so that no other process can hold it too. */
	if (name_path(st->busy, name, &path, &ignored) == 0)
		unlink(path);
	close(fd);
}

/* A build without root works in a user namespace. If it is killed, it leaves files of subordinate
 * uids, which can be deleted only from inside such a namespace. */
static int delete_mapped(const char *dir, struct err *e)
{
	const char *argv[] = {
		"unshare", "--map-root-user", "--map-auto", "--", "rm", "-rf", "--", dir, NULL};
	struct proc_req req = {.argv = argv, .out_max = 64 * 1024};
	struct op op = op_for_cleanup(DELETE_TIMEOUT_S);

	return proc_run_ok(&op, &req, e);
}

static int delete_dead(const char *dir, struct err *e)
{
	struct err mapped;

	/* Another process may be deleting it too, which makes us fail now and then: try again. */
	for (int tries = 0; tries < 3; tries++)
		if (dir_remove(dir, e) == 0 || !path_exists(dir))
			return 0;
	if (geteuid() != 0 && delete_mapped(dir, &mapped) == 0)
		return 0;
	return -1;
}

int catalog_delete_dir(const struct store *st, const char *dir, struct err *e)
{
	auto_free char *dead = NULL;
	unsigned long long number;
	const char *base = strrchr(dir, '/');

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return err_sys(e, errno, "getrandom");
	if (str_printf(&dead, e, "%s/" DEAD_PREFIX "%s-%016llx", st->images, base ? base + 1 : dir,
		    number) < 0)
		return -1;
	if (rename(dir, dead) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", dir);
	return delete_dead(dead, e);
}

/* Returns 1 if no process held the draft and it was deleted. */
static int sweep_draft(const struct store *st, const char *dir, struct err *e)
{
	auto_fd int fd = -1;
	enum hold got = hold_dir(dir, HOLD_ALONE, &fd, e);

	if (got != HOLD_OK)
		return got == HOLD_FAILED ? -1 : 0;
	return catalog_delete_dir(st, dir, e) < 0 ? -1 : 1;
}

/* Deletes the files of claims that no process holds. */
static int sweep_unused_claims(const struct store *st, struct err *e)
{
	auto_name_list struct name_list names = {0};

	if (catalog_entries(st->busy, "", &names, e) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = NULL;
		auto_fd int fd = -1;

		if (str_printf(&path, e, "%s/%s", st->busy, names.items[i]) < 0)
			return -1;
		if (hold_file(path, HOLD_ALONE, &fd, e) == HOLD_OK)
			unlink(path);
	}
	return 0;
}

enum { DOWNLOAD_KEPT_S = 7 * 24 * 3600 };

/* Deletes downloads that nobody has continued for long. Whoever downloads holds the file. */
static void sweep_downloads(const struct store *st)
{
	auto_name_list struct name_list names = {0};
	auto_free char *dir = NULL;
	struct err ignored; /* a later sweep deletes them */

	if (str_printf(&dir, &ignored, "%s/" CATALOG_DOWNLOADS, st->cache) < 0 ||
		catalog_entries(dir, "", &names, &ignored) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = NULL;
		auto_fd int fd = -1;
		struct stat sb;

		if (str_printf(&path, &ignored, "%s/%s", dir, names.items[i]) < 0 ||
			stat(path, &sb) < 0 || sb.st_mtime > time(NULL) - DOWNLOAD_KEPT_S)
			continue;
		if (hold_file(path, HOLD_ALONE, &fd, &ignored) == HOLD_OK)
			unlink(path);
	}
}

int catalog_sweep(
	const struct store *st, void (*report)(void *, const char *), void *arg, struct err *e)
{
	auto_name_list struct name_list drafts = {0}, dead = {0};
	int rc = 0;

	sweep_downloads(st);
	if (catalog_entries(st->images, DRAFT_PREFIX, &drafts, e) < 0 ||
		catalog_entries(st->images, DEAD_PREFIX, &dead, e) < 0 ||
		sweep_unused_claims(st, e) < 0)
		return -1;
	for (size_t i = 0; i < drafts.n + dead.n; i++) {
		bool draft = i < drafts.n;
		const char *name = draft ? drafts.items[i] : dead.items[i - drafts.n];
		auto_free char *dir = NULL, *text = NULL;
		int got;

		if (str_printf(&dir, e, "%s/%s", st->images, name) < 0)
			return -1;
		got = draft ? sweep_draft(st, dir, e) : delete_dead(dir, e) < 0 ? -1 : 1;
		if (got < 0)
			rc = -1; /* delete the others nevertheless */
		if (got != 1 || !report)
			continue;
		if (str_printf(&text, e, "unfinished image build %s", dir) < 0)
			return -1;
		report(arg, text);
	}
	return rc;
}

int catalog_drop_unnamed(const struct store *st, const char *digest, struct err *e)
{
	auto_free char *dir = NULL;
	auto_name_list struct name_list names = {0};
	auto_fd int fd = -1;
	enum hold got;

	if (catalog_image_dir(st, digest, &dir, e) < 0 || catalog_names(st, digest, &names, e) < 0)
		return -1;
	if (names.n)
		return 0;
	got = hold_dir(dir, HOLD_ALONE, &fd, e);
	if (got != HOLD_OK)
		return got == HOLD_FAILED ? -1 : 0;
	/* Look again, now that we hold it: it may have got a name. From here on it cannot
	 * get one. */
	if (catalog_names(st, digest, &names, e) < 0)
		return -1;
	if (names.n)
		return 0;
	return catalog_delete_dir(st, dir, e) < 0 ? -1 : 1;
}
