/* Operations on images. */
#include "daemon/ops/args.h"
#include "daemon/stale.h"
#include "store/disk/export.h"
#include "util/json.h"
#include "util/system/log.h"

static json_t *image_to_json(const struct image *img)
{
	json_t *cloud_init = img->cloud_init == UNKNOWN
				     ? json_null()
				     : json_boolean(img->cloud_init == KNOWN_YES);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:b, s:s, s:s, s:s, s:o}",
		"name", img->name, "digest", img->digest, "description", img->description, "arch",
		img->arch, "user", img->user ? img->user : "root", "size", (json_int_t)img->size,
		"created", (json_int_t)img->created, "kernel", img->kernel != NULL, "disk",
		img->disk != NULL, "firmware", img->firmware, "os_type", img->os_type, "dir",
		img->dir, "cloud_init", cloud_init);
}

static int give_image(const struct image *img, json_t **ret, struct err *e)
{
	*ret = image_to_json(img);
	return *ret ? 0 : err_oom(e);
}

static void add_loss(void *arg, const char *name, const struct err *why)
{
	json_array_append_new(
		arg, json_pack("{s:s, s:o}", "name", name, "error", json_text(why->msg)));
}

int handle_image_ls(struct request *rq, json_t **ret, struct err *e)
{
	auto_image_list struct image_list list = {0};
	auto_json json_t *all = json_array(), *damaged = json_array();

	if (json_get(rq->args, "args", e, "{}") < 0 ||
		store_list(rq->daemon->store, &(struct image_problems){add_loss, damaged}, &list,
			e) < 0)
		return -1;
	for (size_t i = 0; i < list.n; i++)
		json_array_append_new(all, image_to_json(list.items[i]));
	return json_make(ret, e, "{s:O, s:O}", "images", all, "damaged", damaged);
}

int handle_image_inspect(struct request *rq, json_t **ret, struct err *e)
{
	auto_image struct image *img = NULL;
	const char *ref;

	if (json_get(rq->args, "args", e, "{s:s}", "image", &ref) < 0 ||
		store_find(rq->daemon->store, ref, &img, e) < 0)
		return -1;
	return give_image(img, ret, e);
}

int handle_image_build(struct request *rq, json_t **ret, struct err *e)
{
	auto_image struct image *img = NULL;
	const char *name;
	int rebuild = 0;

	if (json_get(rq->args, "args", e, "{s:s, s?b}", "image", &name, "rebuild", &rebuild) < 0 ||
		store_build(rq->daemon->store, &rq->op, name, rebuild, &img, e) < 0)
		return -1;
	return give_image(img, ret, e);
}

int handle_image_import(struct request *rq, json_t **ret, struct err *e)
{
	auto_image struct image *img = NULL;
	struct import_req req = {0};
	enum spec_os os;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s?s, s?s, s?s}", "path", &req.path, "name",
		    &req.name, "user", &req.user, "os_type", &req.os_type, "firmware",
		    &req.firmware) < 0 ||
		(req.os_type && spec_os_find(req.os_type, &os, e) < 0) ||
		store_import(rq->daemon->store, &rq->op, &req, &img, e) < 0)
		return -1;
	return give_image(img, ret, e);
}

int handle_image_commit(struct request *rq, json_t **ret, struct err *e)
{
	static const char *const states[] = {
		[COMMIT_OFF] = "off", [COMMIT_FROZEN] = "frozen", [COMMIT_PAUSED] = "paused"};
	const char *sandbox, *vm_name = NULL;
	auto_image struct image *img = NULL;
	struct driver_commit req = {0};
	enum commit_state state;
	struct borrower b;
	unsigned vm;
	int rc;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s:s, s?s}", "sandbox", &sandbox, "vm",
		    &vm_name, "name", &req.name, "user", &req.user) < 0 ||
		borrow_vm(rq, sandbox, vm_name, &b, &vm, e) < 0)
		return -1;
	if (b.sb->driver->ops->commit)
		rc = b.sb->driver->ops->commit(b.driven, &rq->op, vm, &req, &img, &state, e);
	else
		rc = err_set(e, ERR_UNSUPPORTED,
			"VMs of the %s driver cannot become images of this machine's store",
			b.sb->driver->ops->name);
	if (rc < 0)
		registry_explain(rq->daemon->registry, &b, e);
	registry_return(rq->daemon->registry, &b);
	if (rc < 0 || give_image(img, ret, e) < 0)
		return -1;
	return json_object_set_new(*ret, "copied", json_string(states[state])) < 0 ? err_oom(e) : 0;
}

int handle_image_export(struct request *rq, json_t **ret, struct err *e)
{
	struct export_req req = {0};
	uint64_t size;

	if (json_get(rq->args, "args", e, "{s:s, s:s, s:s}", "image", &req.image, "path", &req.path,
		    "format", &req.format) < 0 ||
		store_export(rq->daemon->store, &rq->op, &req, &size, e) < 0)
		return -1;
	return json_make(
		ret, e, "{s:o, s:I}", "path", json_text(req.path), "size", (json_int_t)size);
}

int handle_image_rm(struct request *rq, json_t **ret, struct err *e)
{
	const char *ref;
	uint64_t freed;
	struct err ignored;

	if (json_get(rq->args, "args", e, "{s:s}", "image", &ref) < 0 ||
		store_remove(rq->daemon->store, ref, &freed, e) < 0)
		return -1;
	if (templates_drop_stale(rq->daemon, NULL, NULL, &ignored) < 0)
		log_err(&rq->op, LOG_WARN, &ignored, "templates of that image stay");
	return json_make(ret, e, "{s:I}", "freed", (json_int_t)freed);
}
