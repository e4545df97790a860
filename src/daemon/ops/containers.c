#include "daemon/ops/containers.h"

#include "util/auto.h"
#include "util/json.h"

static int get_image(
	struct request *rq, const struct source_spec *source, struct image **ret, struct err *e)
{
	const struct dockerfile_spec *d = source->dockerfile;

	if (source->kind == SPEC_SOURCE_OCI)
		return store_oci_pull(rq->daemon->store, &rq->op,
			&(struct oci_pull_req){.ref = source->oci, .missing = true}, ret, e);
	return store_oci_build(rq->daemon->store, &rq->op,
		&(struct oci_build_req){.context = d->context,
			.file = d->file,
			.target = d->target,
			.args = d->args},
		ret, e);
}

/* Writes the digest into the canonical spec. */
static int set_image(json_t *spec, size_t i, const struct image *image, struct err *e)
{
	json_t *vm = json_array_get(json_object_get(spec, "vms"), i);
	json_t *source = json_pack("{s:s}", "image", image->digest);

	return !source || json_object_set_new(vm, "source", source) < 0 ? err_oom(e) : 0;
}

int get_containers(
	struct request *rq, struct driver *drv, struct sandbox_spec **spec, struct err *e)
{
	auto_spec struct sandbox_spec *got = NULL;
	auto_json json_t *j = NULL;

	for (size_t i = 0; i < (*spec)->n_vms; i++) {
		const struct vm_spec *vm = &(*spec)->vms[i];
		auto_image struct image *image = NULL;

		if (vm->source.kind != SPEC_SOURCE_OCI && vm->source.kind != SPEC_SOURCE_DOCKERFILE)
			continue;
		if (!j && spec_to_json(*spec, &j, e) < 0)
			return -1;
		if (get_image(rq, &vm->source, &image, e) < 0)
			return err_wrap(e, "VM %s", vm->name);
		if (set_image(j, i, image, e) < 0)
			return -1;
	}
	if (!j)
		return 0;
	if (spec_parse(j, &got, e) < 0 || drv->ops->validate(drv, got, e) < 0)
		return -1;
	spec_free(*spec);
	*spec = take_ptr(&got);
	return 0;
}
