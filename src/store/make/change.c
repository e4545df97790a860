/*
 * An image out of another. The steps - files, packages, scripts - are first written into the draft,
 * so that their digest is that of what will be done, whatever happens to the user's files
 * meanwhile. The digest, with the base's, is the new image's "source": an image that has it needs
 * no building.
 */
#include "store/make/change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/qemu-img.h"
#include "store/manifest.h"
#include "store/recipe.h"
#include "store/store.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/strv.h"
#include "util/system/io.h"
#include "util/system/proc.h"
#include "util/system/sha256-file.h"

#define DISK_NAME  "disk.qcow2"
#define FIXED_TIME "--mtime=@1700000000" /* a file that was only touched is the same */
enum { SCRIPT_MAX = 4 << 20, STEPS_MAX = 500, PACKAGE_MAX = 200 };

/* What apt takes for one package: NAME, NAME:ARCH, NAME=VERSION, NAME/RELEASE. */
static int check_package(const char *name, struct err *e)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	char shown[128];

	if (*name && strchr(letters, *name) && strlen(name) <= PACKAGE_MAX &&
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			     "+.-:=~/_") == strlen(name))
		return 0;
	str_escape(name, strlen(name), shown, sizeof(shown));
	return err_set(e, ERR_INVALID, "packages: \"%s\" is no name of a package", shown);
}

/* Writes DIR/steps/FILE. */
static int put(const struct draft *d, const char *file, const char *text, size_t n, struct err *e)
{
	auto_free char *path = NULL;

	if (str_printf(&path, e, "%s/steps/%s", d->work, file) < 0)
		return -1;
	return file_write_atomic(path, text, n, 0600, e);
}

static void digest_text(struct sha256 *sum, const char *text)
{
	sha256_add(sum, text, strlen(text) + 1);
}

static int put_packages(
	const struct draft *d, const char *const *packages, struct sha256 *sum, struct err *e)
{
	auto_buf struct buf text = {0};

	for (unsigned i = 0; packages && packages[i]; i++) {
		if (i >= STEPS_MAX)
			return err_set(e, ERR_LIMIT, "packages: more than %d", STEPS_MAX);
		if (check_package(packages[i], e) < 0 ||
			buf_add(&text, packages[i], strlen(packages[i]), e) < 0 ||
			buf_add(&text, "\n", 1, e) < 0)
			return -1;
		digest_text(sum, packages[i]);
	}
	digest_text(sum, "");
	return put(d, "packages", (const char *)buf_data(&text), text.len, e);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int put_name(const struct draft *d, const char *file, const char *path, struct err *e)
{
	char shown[256];

	str_escape(base_name(path), strlen(base_name(path)), shown, sizeof(shown));
	return put(d, file, shown, strlen(shown), e);
}

static int put_scripts(
	const struct draft *d, const char *const *scripts, struct sha256 *sum, struct err *e)
{
	for (unsigned i = 0; scripts && scripts[i]; i++) {
		auto_free char *text = NULL;
		char file[32], name[40];
		size_t len;

		if (i >= STEPS_MAX)
			return err_set(e, ERR_LIMIT, "run: more than %d", STEPS_MAX);
		if (scripts[i][0] != '/')
			return err_set(e, ERR_INVALID, "run: not absolute");
		snprintf(file, sizeof(file), "run-%03u", i);
		snprintf(name, sizeof(name), "%s.name", file);
		if (file_read(scripts[i], SCRIPT_MAX, &text, &len, e) < 0)
			return err_wrap(e, "run");
		if (put(d, file, text, len, e) < 0 || put_name(d, name, scripts[i], e) < 0)
			return -1;
		sha256_add(sum, &len, sizeof(len));
		sha256_add(sum, text, len);
	}
	digest_text(sum, "");
	return 0;
}

/* Packs a file or directory under the name "copy". The archive's bytes depend on nothing but names,
 * modes and content. */
static int pack(
	const struct op *op, const struct draft *d, const char *from, const char *to, struct err *e)
{
	auto_free char *dir = NULL;
	auto_strv struct strv argv = {0};
	struct proc_req req = {.out_max = 64 * 1024, .guard = d->st->helper_path};
	struct stat st;
	bool is_dir;

	if (stat(from, &st) < 0)
		return err_sys(e, errno, "%s", from);
	is_dir = S_ISDIR(st.st_mode);
	if (!is_dir && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is no file and no directory", from);
	if (is_dir ? str_dup(from, &dir, e) < 0
		   : str_printf(&dir, e, "%.*s", (int)(base_name(from) - from), from) < 0)
		return -1;
	strv_add_all(&argv, "tar", "-c", "-f", to, "--format=gnu", "--sort=name", FIXED_TIME,
		"--owner=0", "--group=0", "--numeric-owner", "-C", dir,
		is_dir ? "--transform=flags=rhS;s,^\\.,copy," : "--transform=flags=rhS;s,.*,copy,",
		"--", NULL);
	strv_addf(&argv, "%s%s", is_dir ? "." : "./", is_dir ? "" : base_name(from));
	if (strv_check(&argv, e) < 0)
		return -1;
	req.argv = (const char *const *)argv.v;
	return proc_run_ok(op, &req, e);
}

static int put_copies(const struct op *op, const struct draft *d, const char *const *copy,
	struct sha256 *sum, struct err *e)
{
	for (unsigned i = 0; copy && copy[2 * i]; i++) {
		const char *from = copy[2 * i], *to = copy[2 * i + 1];
		auto_free char *tar = NULL;
		char name[40], hex[SHA256_HEX + 1];
		auto_fd int fd = -1;

		if (i >= STEPS_MAX)
			return err_set(e, ERR_LIMIT, "copy: more than %d", STEPS_MAX);
		if (from[0] != '/' || !to || to[0] != '/' || strchr(to, '\n'))
			return err_set(e, ERR_INVALID,
				"copy: the path in the image must begin with a slash");
		if (str_printf(&tar, e, "%s/steps/copy-%03u.tar", d->work, i) < 0)
			return -1;
		if (pack(op, d, from, tar, e) < 0)
			return err_wrap(e, "copy");
		fd = open(tar, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(e, errno, "%s", tar);
		if (sha256_file(op, fd, "reading what is copied", hex, e) < 0)
			return -1;
		snprintf(name, sizeof(name), "copy-%03u.to", i);
		if (put(d, name, to, strlen(to), e) < 0)
			return -1;
		snprintf(name, sizeof(name), "copy-%03u.name", i);
		if (put_name(d, name, from, e) < 0)
			return -1;
		digest_text(sum, hex);
		digest_text(sum, to);
		digest_text(sum, base_name(from));
	}
	digest_text(sum, "");
	return 0;
}

int change_prepare(const struct op *op, struct draft *d, const struct change_disk *c,
	char ret_hex[SHA256_HEX + 1], struct err *e)
{
	auto_free char *dir = NULL;
	struct sha256 sum;

	sha256_start(&sum);
	sha256_add(&sum, &c->disk_mb, sizeof(c->disk_mb));
	if (str_printf(&dir, e, "%s/steps", d->work) < 0 || dir_make(dir, 0700, e) < 0 ||
		put_copies(op, d, c->copy, &sum, e) < 0 ||
		put_packages(d, c->packages, &sum, e) < 0 ||
		put_scripts(d, c->scripts, &sum, e) < 0)
		return -1;
	sha256_end(&sum, ret_hex);
	return 0;
}

/* Writes WORK/disk.raw. The base's disk may have been made to do harm: qemu-img is confined, and
 * finds no other file that the disk names. */
static int unpack(
	const struct op *op, const struct draft *d, const struct change_disk *c, struct err *e)
{
	auto_fd int disk = open(c->disk, O_RDONLY | O_CLOEXEC), raw = -1;
	auto_free char *path = NULL;

	if (disk < 0)
		return err_sys(e, errno, "%s", c->disk);
	if (str_printf(&path, e, "%s/disk.raw", d->work) < 0)
		return -1;
	raw = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (raw < 0)
		return err_sys(e, errno, "%s", path);
	return qemu_img_write(op,
		&(struct qemu_img_write){.helper_path = d->st->helper_path,
			.layers = {{disk, c->format}},
			.n_layers = 1,
			.out_fd = raw,
			.out_format = "raw",
			.text = "unpacking the disk"},
		e);
}

int change_run(const struct op *op, struct draft *d, const struct change_disk *c, struct err *e)
{
	const struct store *st = d->st;
	const char *slash = strrchr(st->helper_path, '/');
	auto_free char *path = NULL, *log = NULL;
	auto_strv struct strv env = {0};
	struct recipe_run run = {.name = c->name};

	strv_addf(&env, "MOAT_DISK_MB=%u", c->disk_mb);
	strv_addf(&env, "MOAT_HELPER=%s", st->helper_path);
	strv_addf(&env, "MOAT_DISK_TOOL=%.*s/moat-disk", (int)(slash ? slash - st->helper_path : 0),
		st->helper_path);
	if (strv_check(&env, e) < 0 || str_printf(&path, e, "%s/change.sh", st->recipes) < 0 ||
		catalog_log_path(st, c->name, &log, e) < 0 || dir_make(st->cache, 0700, e) < 0)
		return -1;
	op_progress(op, 0, 0, "unpacking the disk");
	if (unpack(op, d, c, e) < 0)
		return -1;
	run.path = path;
	run.log = log;
	run.env = (const char *const *)env.v;
	return recipe_run(op, d, &run, e);
}

/* ---- an image of the store as the base ---- */

/* The base's manifest, for an image that is like it but for its disk. */
static int make_manifest(const struct store *st, const struct image *base, const char *steps,
	json_t *members, json_t **ret, struct err *e)
{
	static const char *const own[] = {"digest", "created", "size", "files"};
	auto_json json_t *m = NULL;
	auto_free char *description = NULL;
	char source[SHA256_HEX + 1];
	struct sha256 sum;

	if (catalog_manifest(st, base->digest, &m, e) < 0 ||
		str_printf(&description, e, "%s%s", base->description,
			str_ends(base->description, ", changed") ? "" : ", changed") < 0)
		return -1;
	sha256_start(&sum);
	digest_text(&sum, base->digest);
	digest_text(&sum, steps);
	sha256_end(&sum, source);
	for (unsigned i = 0; i < ARRAY_LEN(own); i++)
		json_object_del(m, own[i]);
	if (json_object_set_new(m, "source", json_string(source)) < 0 ||
		json_object_set_new(m, "description", json_text(description)) < 0 ||
		json_object_set_new(m, "disk", json_string(DISK_NAME)) < 0 ||
		json_object_set_new(m, "disk_format", json_string("qcow2")) < 0 ||
		(members && json_object_update(m, members) < 0))
		return err_oom(e);
	*ret = take_ptr(&m);
	return 0;
}

int change_claimed(struct store *st, const struct op *op, const struct change_req *req,
	const struct image *base, json_t *members, struct image **ret, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_json json_t *m = NULL;
	char steps[SHA256_HEX + 1];
	struct change_disk c = {.name = req->name,
		.disk = base->disk,
		.format = base->disk_format,
		.copy = req->copy,
		.packages = req->packages,
		.scripts = req->scripts,
		.disk_mb = req->disk_gb * 1024};
	int got;

	if (draft_new(st, &d, e) < 0 || change_prepare(op, d, &c, steps, e) < 0 ||
		make_manifest(st, base, steps, members, &m, e) < 0)
		return -1;
	got = req->rebuild ? 0 : draft_reuse(op, d, m, req->name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (change_run(op, d, &c, e) < 0 || draft_take_files(d, base->dir, m, e) < 0)
		return -1;
	return draft_commit(op, d, m, req->name, ret, e);
}

int change_use_base(struct store *st, const struct op *op, const char *base, struct image **ret,
	struct image_use **ret_use, struct err *e)
{
	auto_image struct image *built = NULL;
	struct err why;

	if (store_use(st, base, ret, ret_use, e) == 0)
		return 0;
	if (e->kind != ERR_NOT_FOUND)
		return -1;
	if (store_build(st, op, base, false, &built, &why) < 0) {
		if (why.kind != ERR_NOT_FOUND)
			*e = why;
		return -1;
	}
	return store_use(st, base, ret, ret_use, e);
}

int store_change(struct store *st, const struct op *op, const struct change_req *req,
	struct image **ret, struct err *e)
{
	auto_image struct image *base = NULL;
	auto_image_use struct image_use *use = NULL;
	int claim = -1, rc;

	if (check_image_name(req->name, e) < 0 ||
		change_use_base(st, op, req->base, &base, &use, e) < 0)
		return -1;
	if (!base->disk)
		return err_set(e, ERR_UNSUPPORTED,
			"%s runs from memory and has no disk that could be changed", req->base);
	if (catalog_claim_name(st, op, req->name, &claim, e) < 0)
		return -1;
	rc = change_claimed(st, op, req, base, NULL, ret, e);
	catalog_release_name(st, req->name, claim);
	return rc < 0 ? err_wrap(e, "building %s", req->name) : 0;
}
