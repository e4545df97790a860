/* Operations on images. */
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/args.h"
#include "daemon/stale.h"
#include "store/disk/export.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/log.h"

static json_t *image_to_json(const struct image *img)
{
	json_t *cloud_init = img->cloud_init == UNKNOWN
				     ? json_null()
				     : json_boolean(img->cloud_init == KNOWN_YES);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:b, s:s, s:s, s:s, s:o, s:O?}",
		"name", img->name, "digest", img->digest, "description", img->description, "arch",
		img->arch, "user", img->user ? img->user : "root", "size", (json_int_t)img->size,
		"created", (json_int_t)img->created, "kernel", img->kernel != NULL, "disk",
		img->disk != NULL, "firmware", img->firmware, "os_type", img->os_type, "dir",
		img->dir, "cloud_init", cloud_init, "container", img->container);
}

static int give_image(const struct image *img, json_t **ret, struct err *e)
{
	*ret = image_to_json(img);
	if (!*ret)
		return err_oom(e);
	if (img->password && json_object_set_new(*ret, "password", json_string(img->password)) < 0)
		return err_oom(e);
	return 0;
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

/* The strings of an array, which keeps them. *ret is NULL if there is no array. */
static int get_strings(const json_t *array, const char *what, const char ***ret, struct err *e)
{
	auto_free const char **all = NULL;
	const json_t *one;
	size_t i;

	if (!array)
		return 0;
	all = calloc(json_array_size(array) + 1, sizeof(*all));
	if (!all)
		return err_oom(e);
	if (!json_is_array(array))
		return err_set(e, ERR_INVALID, "%s: not an array", what);
	json_array_foreach(array, i, one) {
		if (!json_is_string(one))
			return err_set(e, ERR_INVALID, "%s: not an array of texts", what);
		all[i] = json_string_value(one);
	}
	*ret = take_ptr(&all);
	return 0;
}

/* args: {"image": ..., "steps": {...}}. */
static int change_image(struct request *rq, const char *base, int rebuild, json_t *steps,
	struct image **ret, struct err *e)
{
	auto_free const char **packages = NULL, **copy = NULL, **scripts = NULL;
	struct change_req req = {.base = base, .rebuild = rebuild};
	json_t *j_packages = NULL, *j_copy = NULL, *j_run = NULL;
	json_int_t disk_gb = 0;

	if (json_get(steps, "steps", e, "{s:s, s?o, s?o, s?o, s?I}", "name", &req.name, "packages",
		    &j_packages, "copy", &j_copy, "run", &j_run, "disk_gb", &disk_gb) < 0 ||
		get_strings(j_packages, "packages", &packages, e) < 0 ||
		get_strings(j_copy, "copy", &copy, e) < 0 ||
		get_strings(j_run, "run", &scripts, e) < 0)
		return -1;
	if (disk_gb < 0 || disk_gb > CHANGE_DISK_GB_MAX)
		return err_set(e, ERR_INVALID, "disk_gb: not between 0 and %d", CHANGE_DISK_GB_MAX);
	req.packages = packages;
	req.copy = copy;
	req.scripts = scripts;
	req.disk_gb = (unsigned)disk_gb;
	return store_change(rq->daemon->store, &rq->op, &req, ret, e);
}

/* args: {"dockerfile": {...}, "name": ...}. */
static int build_container(struct request *rq, const char *name, int rebuild, json_t *dockerfile,
	struct image **ret, struct err *e)
{
	struct oci_build_req req = {.name = name, .rebuild = rebuild};
	json_t *args = NULL;

	if (json_get(dockerfile, "dockerfile", e, "{s:s, s?s, s?s, s?o}", "context", &req.context,
		    "file", &req.file, "target", &req.target, "args", &args) < 0)
		return -1;
	req.args = args;
	return store_oci_build(rq->daemon->store, &rq->op, &req, ret, e);
}

int handle_image_build(struct request *rq, json_t **ret, struct err *e)
{
	auto_image struct image *img = NULL;
	json_t *steps = NULL, *dockerfile = NULL;
	const char *image = NULL, *name = NULL;
	int rebuild = 0;

	if (json_get(rq->args, "args", e, "{s?s, s?b, s?o, s?o, s?s}", "image", &image, "rebuild",
		    &rebuild, "steps", &steps, "dockerfile", &dockerfile, "name", &name) < 0)
		return -1;
	if (!image == !dockerfile || (dockerfile && steps) || (name && !dockerfile))
		return err_set(e, ERR_INVALID,
			"args: either image, or dockerfile, which alone may have a name");
	if (dockerfile)
		return build_container(rq, name, rebuild, dockerfile, &img, e) < 0
			       ? -1
			       : give_image(img, ret, e);
	if (steps ? change_image(rq, image, rebuild, steps, &img, e) < 0
		  : store_build(rq->daemon->store, &rq->op, image, rebuild, &img, e) < 0)
		return -1;
	return give_image(img, ret, e);
}

int handle_image_pull(struct request *rq, json_t **ret, struct err *e)
{
	auto_image struct image *img = NULL;
	const char *from, *sha256 = NULL;
	struct import_req as = {0};
	int rebuild = 0, missing = 0, rc;
	enum spec_os os;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s?b, s?b, s?s, s?s, s?s, s?s}", "from", &from,
		    "sha256", &sha256, "rebuild", &rebuild, "missing", &missing, "name", &as.name,
		    "user", &as.user, "os_type", &as.os_type, "firmware", &as.firmware) < 0 ||
		(as.os_type && spec_os_find(as.os_type, &os, e) < 0))
		return -1;
	if (strstr(from, "://") && !store_oci_is_meant(from)) {
		rc = store_pull_url(rq->daemon->store, &rq->op, from, sha256, &as, &img, e);
	} else if (sha256 || as.user || as.os_type || as.firmware) {
		return err_set(e, ERR_INVALID,
			"sha256, user, os_type and firmware are for a disk that a URL names, not "
			"for %s",
			from);
	} else if (store_oci_is_meant(from)) {
		rc = store_oci_pull(rq->daemon->store, &rq->op,
			&(struct oci_pull_req){.ref = from,
				.name = as.name,
				.missing = missing,
				.rebuild = rebuild},
			&img, e);
	} else {
		rc = store_pull(rq->daemon->store, &rq->op, from, as.name, rebuild, &img, e);
	}
	return rc < 0 ? -1 : give_image(img, ret, e);
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
