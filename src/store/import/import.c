#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/draft.h"
#include "store/manifest.h"
#include "store/import/decompress.h"
#include "store/import/ova.h"
#include "store/import/probe-file.h"
#include "store/import/qemu-img.h"
#include "store/sparse.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/sha256-file.h"
#include "util/str.h"

#define DISK_NAME "disk.qcow2"

/* A file that is being imported. */
struct source {
	const char *name; /* the file's name without directories */
	int fd;
	struct stat st;
	enum probe_kind kind;
	char digest[SHA256_HEX + 1];
};

static void source_close(struct source *s)
{
	auto_closep(&s->fd);
}
#define auto_source __attribute__((cleanup(source_close)))

/* shown: the file's name in messages. */
static int source_open(const char *path, const char *shown, struct source *ret, struct err *e)
{
	struct source s = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	const char *slash = strrchr(path, '/');

	if (s.fd < 0)
		return err_sys(e, errno, "%s", shown);
	s.name = slash ? slash + 1 : path;
	if (fstat(s.fd, &s.st) < 0)
		err_sys(e, errno, "%s", shown);
	else if (S_ISDIR(s.st.st_mode))
		err_sys(e, EISDIR, "%s", shown);
	else if (!S_ISREG(s.st.st_mode))
		err_set(e, ERR_INVALID, "%s is not a file", shown);
	else if (probe_file(s.fd, s.name, &s.kind, e) < 0)
		err_wrap(e, "%s", shown);
	else {
		*ret = s;
		return 0;
	}
	close(s.fd);
	return -1;
}

static int source_hash(const struct op *op, struct source *s, struct err *e)
{
	auto_free char *text = NULL;

	if (str_printf(&text, e, "reading %s", s->name) < 0)
		return -1;
	return sha256_file(op, s->fd, text, s->digest, e);
}

static int source_unchanged(const struct source *s, struct err *e)
{
	struct stat now;

	if (fstat(s->fd, &now) < 0)
		return err_sys(e, errno, "stat");
	if (now.st_size != s->st.st_size || now.st_mtim.tv_sec != s->st.st_mtim.tv_sec ||
		now.st_mtim.tv_nsec != s->st.st_mtim.tv_nsec)
		return err_set(e, ERR_INVALID, "it changed while it was read");
	return 0;
}

static int make_manifest(
	const struct import_req *req, const struct source *s, json_t **ret, struct err *e)
{
	auto_json json_t *m = NULL;
	auto_free char *text = NULL, *description = NULL;

	if (str_printf(&description, e, "Imported %s disk", probe_kind_name(s->kind)) < 0 ||
		json_make(&m, e, "{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s*, s:s}", "format", 1,
			"description", description, "arch", "x86_64", "os_type",
			req->os_type ? req->os_type : "l26", "firmware",
			req->firmware ? req->firmware : "any", "disk", DISK_NAME, "disk_format",
			"qcow2", "user", req->user, "source", s->digest) < 0 ||
		json_to_str(m, &text, e) < 0)
		return -1;
	return manifest_parse((struct bytes){(uint8_t *)text, strlen(text)}, ret, e);
}

/* The disk of an OVA, or of a compressed file, as a source of its own. fd: of the file. */
static int unpack(const struct op *op, struct draft *d, const struct source *from, int fd,
	struct source *ret, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	struct decompress_req req = {
		.helper_path = d->st->helper_path, .fd = fd, .kind = from->kind};

	if (str_printf(&path, e, "%s/disk", d->work) < 0 ||
		str_printf(&text, e, "unpacking %s", from->name) < 0)
		return -1;
	req.path = path;
	req.text = text;
	if (from->kind == PROBE_OVA ? ova_extract_disk(op, fd, path, e) < 0
				    : decompress(op, &req, e) < 0)
		return -1;
	if (source_open(path, "the disk in it", ret, e) < 0)
		return -1;
	ret->name = "disk";
	if (ret->kind == PROBE_OVA || probe_is_compressed(ret->kind))
		return err_set(
			e, ERR_INVALID, "the disk in it is another archive: unpack it first");
	return 0;
}

/* qemu-img opens the file once more, and where we are root it is another user. If that user may not
 * read the file, it gets a copy. */
static int make_readable(
	const struct op *op, struct draft *d, const struct source *s, int *ret_fd, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	auto_fd int copy = -1;
	uint64_t sum;

	if (getuid() != 0 || s->st.st_mode & S_IROTH)
		return 0;
	if (str_printf(&path, e, "%s/source", d->work) < 0 ||
		str_printf(&text, e, "copying %s", s->name) < 0)
		return -1;
	copy = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (copy < 0 || fchmod(copy, 0644) < 0 || ftruncate(copy, s->st.st_size) < 0)
		return err_sys(e, errno, "copy");
	if (ioctl(copy, FICLONE, s->fd) < 0 && sparse_copy(op, s->fd, copy, text, &sum, e) < 0)
		return -1;
	*ret_fd = take_fd(&copy);
	return 0;
}

static int convert(const struct op *op, struct draft *d, const struct source *s, struct err *e)
{
	auto_source struct source inner = {.fd = -1};
	auto_fd int copy = -1;
	auto_free char *path = NULL;
	struct qemu_img img = {
		.helper_path = d->st->helper_path, .fd = s->fd, .format = probe_kind_name(s->kind)};

	if (str_printf(&path, e, "%s/" DISK_NAME, d->out) < 0)
		return -1;
	if (s->kind != PROBE_OVA && make_readable(op, d, s, &copy, e) < 0)
		return -1;
	if (copy >= 0)
		img.fd = copy;
	if (s->kind == PROBE_OVA || probe_is_compressed(s->kind)) {
		if (unpack(op, d, s, img.fd, &inner, e) < 0)
			return -1;
		img.fd = inner.fd;
		img.format = probe_kind_name(inner.kind);
	}
	if (qemu_img_inspect(op, &img, e) < 0 || qemu_img_convert(op, &img, path, e) < 0)
		return -1;
	return source_unchanged(s, e);
}

/* Imports an image whose name the caller has claimed. */
static int import_claimed(struct store *st, const struct op *op, const struct import_req *req,
	struct source *s, struct image **ret, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_json json_t *m = NULL;
	int got;

	if (source_hash(op, s, e) < 0 || make_manifest(req, s, &m, e) < 0 ||
		draft_new(st, &d, e) < 0)
		return -1;
	got = draft_reuse(op, d, m, req->name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (convert(op, d, s, e) < 0)
		return -1;
	return draft_commit(op, d, m, req->name, ret, e);
}

static void cut_ending(char *name, const char *const *endings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_ends(name, endings[i]) && strlen(name) > strlen(endings[i])) {
			name[strlen(name) - strlen(endings[i])] = 0;
			return;
		}
}

/* The default name of an image: "/x/Web Server.vmdk" becomes "Web-Server". */
static int name_from_path(const char *path, char **ret, struct err *e)
{
	static const char *const packed[] = {".gz", ".xz", ".zst"};
	static const char *const endings[] = {
		".qcow2", ".raw", ".img", ".vmdk", ".vdi", ".vhdx", ".ova", ".tar"};
	const char *slash = strrchr(path, '/');
	auto_free char *name = NULL;

	if (str_dup(slash ? slash + 1 : path, &name, e) < 0)
		return -1;
	cut_ending(name, packed, ARRAY_LEN(packed));
	cut_ending(name, endings, ARRAY_LEN(endings));
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '-';
	if (check_image_name(name, e) < 0)
		return err_wrap(e, "give the image a name");
	*ret = take_ptr(&name);
	return 0;
}

static int check_req(const struct import_req *req, struct err *e)
{
	/* The slash also excludes qemu-img's own notations, such as "nbd:...". */
	if (!req->path || req->path[0] != '/')
		return err_set(e, ERR_INVALID, "path: not absolute");
	if (check_user(req->user, e) < 0 || check_firmware(req->firmware, e) < 0 ||
		(req->os_type && check_os_type(req->os_type, e) < 0))
		return -1;
	return req->name ? check_image_name(req->name, e) : 0;
}

int store_import(struct store *st, const struct op *op, const struct import_req *req,
	struct image **ret, struct err *e)
{
	auto_source struct source s = {.fd = -1};
	auto_free char *name = NULL;
	struct import_req named = *req;
	int claim = -1, rc;

	if (check_req(req, e) < 0)
		return -1;
	if (!req->name) {
		if (name_from_path(req->path, &name, e) < 0)
			return -1;
		named.name = name;
	}
	if (store_oci_found(req->path))
		return store_oci_import(st, op, &named, ret, e);
	if (source_open(req->path, req->path, &s, e) < 0 ||
		catalog_claim_name(st, op, named.name, &claim, e) < 0)
		return -1;
	rc = import_claimed(st, op, &named, &s, ret, e);
	catalog_release_name(st, named.name, claim);
	return rc < 0 ? err_wrap(e, "%s", req->path) : 0;
}
