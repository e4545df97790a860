/*
 * How it works: the new file has no name until it is whole (O_TMPFILE), so that a crash leaves
 * nothing, or, while it replaces another, a whole file named .moat-*. An OVA's disk is made in the
 * store first, in a draft: its checksum stands before it.
 */
#include "store/disk/export.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/disk/ovf-text.h"
#include "store/draft.h"
#include "store/import/qemu-img.h"
#include "store/overlay.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/sha256-file.h"

enum { PIECE = 256 * 1024 };
#define USTAR_LIMIT (UINT64_C(8) << 30) /* its sizes have 11 octal digits */

/* ---- the file ---- */

struct result {
	const char *path;
	char *dir;
	int fd;
};

static void result_done(struct result *r)
{
	free(r->dir);
	auto_closep(&r->fd);
}
#define auto_result __attribute__((cleanup(result_done)))

static int result_open(const char *path, struct result *r, struct err *e)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (path[0] != '/' || !slash[1])
		return err_set(e, ERR_INVALID, "path: not the absolute path of a file");
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is there already and is not a file", path);
	r->path = path;
	if (str_printf(&r->dir, e, "%.*s", (int)(slash - path + 1), path) < 0)
		return -1;
	r->fd = open(r->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (r->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
		return err_set(e, ERR_UNSUPPORTED,
			"%s: its file system has no nameless files: choose another directory",
			r->dir);
	return r->fd < 0 ? err_sys(e, errno, "%s", r->dir) : 0;
}

/* Gives the file its name. A file that has it is replaced: for a moment ours has another. */
static int result_name(const struct result *r, struct err *e)
{
	auto_free char *temporary = NULL;
	char self[32], random[17];

	if (fsync(r->fd) < 0)
		return err_sys(e, errno, "%s", r->path);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", r->fd);
	if (linkat(AT_FDCWD, self, AT_FDCWD, r->path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno != EEXIST)
		return err_sys(e, errno, "%s", r->path);
	if (str_random_hex(8, random, e) < 0 ||
		str_printf(&temporary, e, "%s.moat-%s", r->dir, random) < 0)
		return -1;
	if (linkat(AT_FDCWD, self, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) < 0)
		return err_sys(e, errno, "%s", r->path);
	if (rename(temporary, r->path) < 0) {
		err_sys(e, errno, "%s", r->path);
		unlink(temporary);
		return -1;
	}
	return 0;
}

/* ---- OVA ---- */

struct ova {
	const struct op *op;
	const struct image *img;
	const char *name;
	int vmdk;
	uint64_t size;               /* of the vmdk */
	char digest[SHA256_HEX + 1]; /* likewise */
	char *ovf_name, *mf_name, *disk_name;
	struct buf ovf, mf;
};

static void ova_done(struct ova *o)
{
	auto_closep(&o->vmdk);
	free(o->ovf_name);
	free(o->mf_name);
	free(o->disk_name);
	buf_free(&o->ovf);
	buf_free(&o->mf);
}
#define auto_ova __attribute__((cleanup(ova_done)))

/* The manifest has a checksum of each other file. */
static int make_texts(struct ova *o, struct err *e)
{
	struct ovf_disk disk = {.name = o->name, .size = o->size};
	char hex[SHA256_HEX + 1];
	struct sha256 s;

	if (disk_size(o->img->disk, o->img->disk_format, &disk.capacity, e) < 0 ||
		ovf_text(o->img, &disk, &o->ovf, e) < 0 ||
		str_printf(&o->ovf_name, e, "%s.ovf", o->name) < 0 ||
		str_printf(&o->mf_name, e, "%s.mf", o->name) < 0 ||
		str_printf(&o->disk_name, e, "%s-disk1.vmdk", o->name) < 0)
		return -1;
	sha256_start(&s);
	sha256_add(&s, buf_data(&o->ovf), o->ovf.len);
	sha256_end(&s, hex);
	return buf_printf(&o->mf, e, "SHA256(%s)= %s\nSHA256(%s)= %s\n", o->ovf_name, hex,
		o->disk_name, o->digest);
}

static void archive_freep(struct archive **a)
{
	if (*a)
		archive_write_free(*a);
}
#define auto_archive __attribute__((cleanup(archive_freep)))

static int fail_archive(struct archive *a, struct err *e)
{
	if (archive_errno(a) > 0)
		return err_sys(e, archive_errno(a), "writing the OVA");
	return err_set(e, ERR_BACKEND, "writing the OVA: %s", archive_error_string(a));
}

static int put_header(struct archive *a, const char *name, uint64_t size, struct err *e)
{
	struct archive_entry *entry = archive_entry_new();
	int rc;

	if (!entry)
		return err_oom(e);
	archive_entry_set_pathname(entry, name);
	archive_entry_set_size(entry, (int64_t)size);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0644);
	rc = archive_write_header(a, entry);
	archive_entry_free(entry);
	return rc == ARCHIVE_OK || rc == ARCHIVE_WARN ? 0 : fail_archive(a, e);
}

static int put_text(struct archive *a, const char *name, const struct buf *text, struct err *e)
{
	if (put_header(a, name, text->len, e) < 0)
		return -1;
	return archive_write_data(a, buf_data(text), text->len) == (la_ssize_t)text->len
		       ? 0
		       : fail_archive(a, e);
}

static int put_vmdk(struct archive *a, const struct ova *o, struct err *e)
{
	auto_free uint8_t *piece = malloc(PIECE);

	if (!piece)
		return err_oom(e);
	if (put_header(a, o->disk_name, o->size, e) < 0)
		return -1;
	for (uint64_t at = 0; at < o->size;) {
		ssize_t n = pread(o->vmdk, piece, PIECE, (off_t)at);

		if (n <= 0)
			return err_sys(e, n < 0 ? errno : EIO, "reading the disk");
		if (archive_write_data(a, piece, (size_t)n) != n)
			return fail_archive(a, e);
		at += (uint64_t)n;
		op_progress(o->op, at, o->size, "writing the OVA");
		if (op_check(o->op, e) < 0)
			return -1;
	}
	return 0;
}

/* The descriptor is first and the manifest second, as the standard has it. It has ustar as well,
 * which has no room for the size of a large disk. */
static int write_tar(const struct ova *o, int fd, struct err *e)
{
	auto_archive struct archive *a = archive_write_new();
	int format;

	if (!a)
		return err_oom(e);
	format = o->size < USTAR_LIMIT ? archive_write_set_format_ustar(a)
				       : archive_write_set_format_gnutar(a);
	if (format != ARCHIVE_OK || archive_write_open_fd(a, fd) != ARCHIVE_OK)
		return fail_archive(a, e);
	if (put_text(a, o->ovf_name, &o->ovf, e) < 0 || put_text(a, o->mf_name, &o->mf, e) < 0 ||
		put_vmdk(a, o, e) < 0)
		return -1;
	return archive_write_close(a) == ARCHIVE_OK ? 0 : fail_archive(a, e);
}

/* ---- all formats ---- */

static int write_disk(struct store *st, const struct op *op, const struct image *img,
	const char *format, int out_fd, struct err *e)
{
	auto_fd int disk = open(img->disk, O_RDONLY | O_CLOEXEC);
	bool vmdk = strcmp(format, "vmdk") == 0;

	if (disk < 0)
		return err_sys(e, errno, "%s", img->disk);
	return qemu_img_write(op,
		&(struct qemu_img_write){.helper_path = st->helper_path,
			.layers = {{disk, img->disk_format}},
			.n_layers = 1,
			.out_fd = out_fd,
			.out_format = format,
			.out_options = vmdk ? "subformat=streamOptimized" : NULL,
			.text = "writing the disk"},
		e);
}

static int write_ova(
	struct store *st, const struct op *op, const struct image *img, int out_fd, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_free char *path = NULL;
	auto_ova struct ova o = {.op = op, .img = img, .vmdk = -1};
	struct stat sb;

	o.name = img->name[0] ? img->name : "image";
	if (draft_new(st, &d, e) < 0 || str_printf(&path, e, "%s/disk.vmdk", d->work) < 0)
		return -1;
	o.vmdk = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (o.vmdk < 0)
		return err_sys(e, errno, "%s", path);
	if (write_disk(st, op, img, "vmdk", o.vmdk, e) < 0 ||
		sha256_file(op, o.vmdk, "summing up the disk", o.digest, e) < 0)
		return -1;
	if (fstat(o.vmdk, &sb) < 0)
		return err_sys(e, errno, "%s", path);
	o.size = (uint64_t)sb.st_size;
	return make_texts(&o, e) < 0 ? -1 : write_tar(&o, out_fd, e);
}

int store_export(struct store *st, const struct op *op, const struct export_req *req,
	uint64_t *ret_size, struct err *e)
{
	auto_result struct result r = {.fd = -1};
	auto_image_use struct image_use *use = NULL;
	auto_image struct image *img = NULL;
	bool ova = strcmp(req->format, "ova") == 0;
	struct stat sb;

	if (!ova && strcmp(req->format, "qcow2") != 0 && strcmp(req->format, "raw") != 0)
		return err_set(e, ERR_INVALID, "format: not \"qcow2\", \"raw\" or \"ova\"");
	if (store_use(st, req->image, &img, &use, e) < 0)
		return -1;
	if (!img->disk)
		return err_set(e, ERR_UNSUPPORTED,
			"image %s has no disk: it is a kernel and an initramfs, in %s", req->image,
			img->dir);
	if (result_open(req->path, &r, e) < 0 ||
		(ova ? write_ova(st, op, img, r.fd, e)
		     : write_disk(st, op, img, req->format, r.fd, e)) < 0 ||
		result_name(&r, e) < 0)
		return -1;
	if (fstat(r.fd, &sb) < 0)
		return err_sys(e, errno, "%s", req->path);
	*ret_size = (uint64_t)sb.st_size;
	return 0;
}
