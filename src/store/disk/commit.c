#include "store/disk/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/draft.h"
#include "store/import/qemu-img.h"
#include "store/manifest.h"
#include "store/sparse.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

#define DISK_NAME "disk.qcow2"

/* The base's manifest, but for what the store adds to it, and the disk. */
static int make_manifest(
	const struct store *st, const struct commit_req *req, json_t **ret, struct err *e)
{
	static const char *const own[] = {"source", "files", "digest", "created", "size"};
	auto_json json_t *m = NULL;

	if (catalog_manifest(st, req->base->digest, &m, e) < 0)
		return -1;
	for (unsigned i = 0; i < ARRAY_LEN(own); i++)
		json_object_del(m, own[i]);
	if (json_object_set_new(m, "description", json_string(req->description)) < 0 ||
		json_object_set_new(m, "disk", json_string(DISK_NAME)) < 0 ||
		json_object_set_new(m, "disk_format", json_string("qcow2")) < 0 ||
		json_object_set_new(m, "used", json_true()) < 0 ||
		(req->user && json_object_set_new(m, "user", json_string(req->user)) < 0))
		return err_oom(e);
	*ret = take_ptr(&m);
	return 0;
}

/* The kernels and the initramfs that the base starts with. */
static int copy_others(const struct op *op, const struct draft *d, const json_t *m,
	const char *from, struct err *e)
{
	const char *names[MANIFEST_FILES_MAX];
	unsigned n = manifest_files(m, names);

	for (unsigned i = 0; i < n; i++) {
		auto_free char *old = NULL, *new = NULL;

		if (strcmp(names[i], DISK_NAME) == 0)
			continue;
		if (str_printf(&old, e, "%s/%s", from, names[i]) < 0 ||
			str_printf(&new, e, "%s/%s", d->out, names[i]) < 0 ||
			sparse_clone(op, old, new, e) < 0)
			return -1;
	}
	return 0;
}

/* Opens a copy in the draft's directory, which is closed to others. qemu-img opens it once more,
 * and where we are root it is another user. */
static int open_copy(const struct draft *d, const char *name, int *ret, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;

	if (str_printf(&path, e, "%s/%s", d->work, name) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0644) < 0)
		return err_sys(e, errno, "%s", path);
	*ret = take_fd(&fd);
	return 0;
}

static int merge(const struct op *op, struct draft *d, const struct commit_req *req, struct err *e)
{
	auto_fd int base = open(req->base->disk, O_RDONLY | O_CLOEXEC), overlay = -1, layer = -1;
	auto_fd int out = -1;
	auto_free char *path = NULL;
	struct qemu_img_write w = {.helper_path = d->st->helper_path,
		.out_format = "qcow2",
		.text = "writing the image's disk"};

	if (base < 0)
		return err_sys(e, errno, "%s", req->base->disk);
	if (open_copy(d, COMMIT_OVERLAY, &overlay, e) < 0 ||
		(req->layered && open_copy(d, COMMIT_LAYER, &layer, e) < 0) ||
		str_printf(&path, e, "%s/" DISK_NAME, d->out) < 0)
		return -1;
	out = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(e, errno, "%s", path);
	w.out_fd = out;
	w.layers[w.n_layers].fd = overlay;
	w.layers[w.n_layers++].format = "qcow2";
	if (req->layered) {
		w.layers[w.n_layers].fd = layer;
		w.layers[w.n_layers++].format = "qcow2";
	}
	w.layers[w.n_layers].fd = base;
	w.layers[w.n_layers++].format = req->base->disk_format;
	return qemu_img_write(op, &w, e);
}

static int commit_claimed(struct store *st, const struct op *op, const struct commit_req *req,
	struct image **ret, struct err *e)
{
	auto_draft struct draft *d = NULL;
	auto_json json_t *m = NULL;

	if (draft_new(st, &d, e) < 0 || make_manifest(st, req, &m, e) < 0 ||
		req->copy(req->arg, op, d->work, e) < 0 ||
		copy_others(op, d, m, req->base->dir, e) < 0 || merge(op, d, req, e) < 0)
		return -1;
	return draft_commit(op, d, m, req->name, ret, e);
}

int store_commit(struct store *st, const struct op *op, const struct commit_req *req,
	struct image **ret, struct err *e)
{
	int claim = -1, rc;

	if (check_image_name(req->name, e) < 0 || check_user(req->user, e) < 0 ||
		catalog_claim_name(st, op, req->name, &claim, e) < 0)
		return -1;
	rc = commit_claimed(st, op, req, ret, e);
	catalog_release_name(st, req->name, claim);
	return rc < 0 ? err_wrap(e, "image %s", req->name) : 0;
}
