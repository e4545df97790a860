/*
 * Images from the net. A vendor's cloud image is downloaded and checked; then the guest agent and
 * packages are put into it, as change.c does for images of the store. Any other URL is downloaded
 * and imported.
 */
#include "store/make/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/make/change.h"
#include "store/make/fetch.h"
#include "store/import/ova.h"
#include "store/import/probe-file.h"
#include "store/import/qemu-img.h"
#include "store/make/vendor.h"
#include "store/manifest.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"

enum { CLOUD_DISK_MB = 10 * 1024 };

extern const char store_script_settle_cloud[]; /* settle-cloud.sh */

/* The disk is a vendor's, but not every vendor signs: it is looked at like any other. */
static int convert_disk(
	const struct op *op, const struct draft *d, int fd, const char *path, struct err *e)
{
	struct qemu_img img = {.helper_path = d->st->helper_path, .fd = fd};
	enum probe_kind kind;

	if (probe_file(fd, "disk.img", &kind, e) < 0)
		return -1;
	if (kind == PROBE_OVA || probe_is_compressed(kind))
		return err_set(e, ERR_INVALID, "it is an archive");
	img.format = probe_kind_name(kind);
	if (qemu_img_inspect(op, &img, e) < 0)
		return -1;
	if (qemu_img_convert(op, &img, path, e) < 0)
		return -1;
	/* It is read once more, where we are root by another user; the directory is closed. */
	return chmod(path, 0644) < 0 ? err_sys(e, errno, "%s", path) : 0;
}

/* Turns the download into WORK/base.qcow2. */
static int unpack(const struct op *op, const struct draft *d, const struct cloud_image *image,
	int fd, const char *base, struct err *e)
{
	auto_free char *raw = NULL;
	auto_fd int disk = -1;

	if (!image->packed)
		return fchmod(fd, 0644) < 0 ? err_sys(e, errno, "chmod")
					    : convert_disk(op, d, fd, base, e);
	if (str_printf(&raw, e, "%s/base.raw", d->work) < 0 || ova_unpack_disk(op, fd, raw, e) < 0)
		return -1;
	disk = open(raw, O_RDONLY | O_CLOEXEC);
	if (disk < 0)
		return err_sys(e, errno, "%s", raw);
	if (convert_disk(op, d, disk, base, e) < 0)
		return -1;
	return unlink(raw) < 0 ? err_sys(e, errno, "%s", raw) : 0;
}

static int make_manifest(const struct cloud_image *image, const char *sum, const char *steps,
	json_t **ret, struct err *e)
{
	auto_free char *description = NULL;
	char source[SHA256_HEX + 1];
	struct sha256 both;

	sha256_start(&both);
	sha256_add(&both, sum, strlen(sum));
	sha256_add(&both, steps, strlen(steps));
	sha256_end(&both, source);
	if (str_printf(&description, e, "%s with the guest agent, python3 and compilers",
		    image->description) < 0)
		return -1;
	return json_make(ret, e, "{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s}", "format", 1,
		"description", description, "arch", "x86_64", "os_type", "l26", "firmware", "any",
		"disk", "disk.qcow2", "disk_format", "qcow2", "cloud_init", 1, "source", source);
}

static int fetch_image(const struct store *st, const struct op *op, const struct cloud_image *image,
	const char *sum, char **ret_path, int *ret_fd, struct err *e)
{
	auto_free char *url = NULL, *text = NULL;
	struct fetch_req req = {.digits = (unsigned)strlen(sum), .sum = sum};

	if (cloud_url(st->mirror, image->vendor->host, image->dir, image->file, &url, e) < 0 ||
		str_printf(&text, e, "downloading %s", image->name) < 0)
		return -1;
	req.url = url;
	req.text = text;
	return fetch_file(st, op, &req, ret_path, ret_fd, e);
}

static int put_script(const struct draft *d, char **ret, struct err *e)
{
	auto_free char *path = NULL;

	if (str_printf(&path, e, "%s/settle", d->work) < 0 ||
		file_write_atomic(path, store_script_settle_cloud,
			strlen(store_script_settle_cloud), 0600, e) < 0)
		return -1;
	*ret = take_ptr(&path);
	return 0;
}

int pull_claimed(struct store *st, const struct op *op, const struct cloud_image *image,
	const char *name, bool rebuild, struct image **ret, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_json json_t *m = NULL;
	auto_free char *base = NULL, *script = NULL, *file = NULL;
	auto_fd int fd = -1;
	char sum[SUM_HEX_MAX + 1], steps[SHA256_HEX + 1];
	int got;

	if (draft_new(st, &d, e) < 0 || str_printf(&base, e, "%s/base.qcow2", d->work) < 0 ||
		put_script(d, &script, e) < 0)
		return -1;
	const char *scripts[] = {script, NULL};
	struct change_disk c = {.name = name,
		.disk = base,
		.format = "qcow2",
		.packages = cloud_packages,
		.scripts = scripts,
		.disk_mb = CLOUD_DISK_MB};

	if (vendor_sum(st, op, image, d->work, sum, e) < 0 ||
		change_prepare(op, d, &c, steps, e) < 0 ||
		make_manifest(image, sum, steps, &m, e) < 0)
		return -1;
	got = rebuild ? 0 : draft_reuse(op, d, m, name, ret, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (fetch_image(st, op, image, sum, &file, &fd, e) < 0 ||
		unpack(op, d, image, fd, base, e) < 0 || change_run(op, d, &c, e) < 0 ||
		draft_commit(op, d, m, name, ret, e) < 0)
		return -1; /* the download stays for the next try */
	unlink(file);
	return 0;
}

int store_pull(struct store *st, const struct op *op, const char *image, const char *name,
	bool rebuild, struct image **ret, struct err *e)
{
	const struct cloud_image *cloud = cloud_find(image);
	char shown[128];
	int claim, rc;

	str_escape(image, strlen(image), shown, sizeof(shown));
	if (!cloud)
		return err_set(e, ERR_NOT_FOUND,
			"moat knows no image \"%s\" on the net; it knows %s, and container images "
			"by names such as %s:latest",
			shown, cloud_names(), shown);
	if (!name)
		name = image;
	if (check_image_name(name, e) < 0 || catalog_claim_name(st, op, name, &claim, e) < 0)
		return -1;
	rc = pull_claimed(st, op, cloud, name, rebuild, ret, e);
	catalog_release_name(st, name, claim);
	return rc < 0 ? err_wrap(e, "getting %s", name) : 0;
}

/* ---- any URL ---- */

int store_pull_url(struct store *st, const struct op *op, const char *url, const char *sha256,
	const struct import_req *as, struct image **ret, struct err *e)
{
	auto_free char *name = NULL, *file = NULL;
	auto_fd int fd = -1;
	int rc;
	struct import_req req = *as;
	struct fetch_req fetch = {.url = url,
		.text = "downloading",
		.sum = sha256,
		.digits = sha256 ? SHA256_HEX : 0};

	if (sha256 &&
		(strlen(sha256) != SHA256_HEX || strspn(sha256, "0123456789abcdef") != SHA256_HEX))
		return err_set(e, ERR_INVALID, "sha256: not 64 hex digits");
	if (fetch_name(url, &name, e) < 0 || fetch_file(st, op, &fetch, &file, &fd, e) < 0)
		return -1;
	req.path = file;
	if (!req.name) {
		name[strcspn(name, ".")] = 0;
		req.name = name;
	}
	rc = store_import(st, op, &req, ret, e);
	if (rc == 0 || !sha256)
		unlink(file);
	return rc < 0 ? err_wrap(e, "%s", url) : 0;
}
