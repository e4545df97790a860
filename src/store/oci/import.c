/*
 * A container image in a file or a directory of this machine. skopeo reads it, checks the sums of
 * its parts, and writes them into the draft in one form.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/manifest.h"
#include "store/oci/make.h"
#include "store/oci/tool.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"

enum { ENTRIES_MAX = 100000, READ_BLOCK = 64 * 1024 };

static void archive_freep(struct archive **a)
{
	if (*a)
		archive_read_free(*a);
}
#define auto_archive __attribute__((cleanup(archive_freep)))

/* Looks at the names in an uncompressed tar file: so no more is read than is there. Returns how
 * skopeo calls such a file, or NULL. */
static const char *look_into_tar(int fd)
{
	auto_archive struct archive *a = archive_read_new();
	struct archive_entry *entry;
	bool layout = false;

	if (!a || archive_read_support_format_tar(a) != ARCHIVE_OK ||
		archive_read_open_fd(a, fd, READ_BLOCK) != ARCHIVE_OK)
		return NULL;
	for (int i = 0; i < ENTRIES_MAX; i++) {
		int rc = archive_read_next_header(a, &entry);
		const char *name;

		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			break;
		name = archive_entry_pathname(entry);
		if (name && str_starts(name, "./"))
			name += 2;
		if (name && strcmp(name, "manifest.json") == 0)
			return "docker-archive";
		layout |= name && strcmp(name, "oci-layout") == 0;
	}
	return layout ? "oci-archive" : NULL;
}

/* How skopeo calls what is at a path; NULL: it is no container image. */
static const char *kind_of(const char *path)
{
	auto_free char *layout = NULL;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct err ignored;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (S_ISREG(st.st_mode))
		return look_into_tar(fd);
	if (!S_ISDIR(st.st_mode) || str_printf(&layout, &ignored, "%s/oci-layout", path) < 0)
		return NULL;
	return path_exists(layout) ? "oci" : NULL;
}

bool store_oci_found(const char *path)
{
	return kind_of(path) != NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A link in the draft stands for the path, in which a colon would mean something. */
static int unpack(const struct op *op, const struct draft *d, const char *kind, const char *path,
	const char *to, struct err *e)
{
	auto_free char *link = NULL;
	auto_strv struct strv argv = {0};
	struct oci_tool_watch watch = {.dirs = {to}, .text = "reading the container image"};
	struct stat st;

	if (str_printf(&link, e, "%s/source", d->work) < 0)
		return -1;
	if (stat(path, &st) < 0 || symlink(path, link) < 0)
		return err_sys(e, errno, "%s", path);
	watch.total = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	oci_skopeo(d, &argv, "copy");
	strv_add(&argv, "--quiet");
	strv_addf(&argv, "%s:%s", kind, link);
	strv_addf(&argv, "dir:%s", to);
	return oci_tool_watch(op, d, &argv, &watch, e);
}

static int import_claimed(struct store *st, const struct op *op, const char *kind,
	const struct import_req *req, struct image **ret, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_free char *to = NULL;
	char ref[128];

	str_escape(base_name(req->path), strlen(base_name(req->path)), ref, sizeof(ref));
	if (draft_new(st, &d, e) < 0 || str_printf(&to, e, "%s/image", d->work) < 0 ||
		oci_tool_prepare(d, NULL, e) < 0 || unpack(op, d, kind, req->path, to, e) < 0)
		return -1;
	return oci_make_from_dir(st, op, d,
		&(struct oci_make_dir){.dir = to, .ref = ref, .name = req->name}, ret, e);
}

int store_oci_import(struct store *st, const struct op *op, const struct import_req *req,
	struct image **ret, struct err *e)
{
	const char *kind = kind_of(req->path);
	int claim = -1, rc;

	if (!kind)
		return err_set(e, ERR_INVALID, "%s is no container image", req->path);
	if (req->user || req->os_type || req->firmware)
		return err_set(e, ERR_INVALID,
			"user, os_type and firmware are not for container images: they say it "
			"themselves");
	if (check_image_name(req->name, e) < 0)
		return err_wrap(e, "give the image a name");
	if (catalog_claim_name(st, op, req->name, &claim, e) < 0)
		return -1;
	rc = import_claimed(st, op, kind, req, ret, e);
	catalog_release_name(st, req->name, claim);
	return rc < 0 ? err_wrap(e, "%s", req->path) : 0;
}
