#include "spec/check-services.h"

#include <string.h>
#include <strings.h>

#include "spec/text.h"

static int check_path(const char *path, const char *place, struct err *e)
{
	const char *why = text_wrong_path(path);

	return why ? spec_err(e, place, "%s", why) : 0;
}

static int check_paths(const struct service_spec *v, size_t i, struct err *e)
{
	for (size_t k = 0; k < v->n_tmpfs; k++)
		if (check_path(v->tmpfs[k].path,
			    SPEC_PLACE("vms[%zu].service.tmpfs[%zu].path", i, k), e) < 0)
			return -1;
	for (size_t k = 0; k < v->n_binds; k++)
		if (check_path(v->binds[k].path,
			    SPEC_PLACE("vms[%zu].service.binds[%zu].path", i, k), e) < 0)
			return -1;
	for (size_t k = 0; k < v->n_volumes; k++)
		if (check_path(v->volumes[k], SPEC_PLACE("vms[%zu].service.volumes[%zu]", i, k),
			    e) < 0)
			return -1;
	return 0;
}

/* Commands go to a VM by its name or by that of its service, so no name may mean two VMs. */
static int check_name(const struct sandbox_spec *s, size_t i, struct err *e)
{
	const char *name = s->vms[i].service->name;

	for (size_t k = 0; k < s->n_vms; k++) {
		const struct vm_spec *other = &s->vms[k];

		if (k != i && strcasecmp(other->name, name) == 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].service.name", i),
				"\"%s\" is the name of vms[%zu]", name, k);
		if (k < i && other->service && strcasecmp(other->service->name, name) == 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].service.name", i),
				"\"%s\" is already the name of the service of vms[%zu]", name, k);
	}
	return 0;
}

static int check_service(const struct sandbox_spec *s, size_t i, struct err *e)
{
	const struct vm_spec *vm = &s->vms[i];
	const struct service_spec *v = vm->service;

	if (vm->source.kind != SPEC_SOURCE_IMAGE && vm->source.kind != SPEC_SOURCE_OCI &&
		vm->source.kind != SPEC_SOURCE_DOCKERFILE)
		return spec_err(e, SPEC_PLACE("vms[%zu].service", i),
			"only VMs made of container images have a service");
	if (v->n_entrypoint && !v->entrypoint[0][0])
		return spec_err(e, SPEC_PLACE("vms[%zu].service.entrypoint[0]", i),
			"is empty; it names the program");
	if (v->restart_max && v->restart != SPEC_RESTART_ON_FAILURE)
		return spec_err(e, SPEC_PLACE("vms[%zu].service.restart_max", i),
			"needs restart: on-failure");
	return check_name(s, i, e) < 0 ? -1 : check_paths(v, i, e);
}

/* Compares forward k of VM i with all that are listed before it. */
static int check_forward(const struct sandbox_spec *s, size_t i, size_t k, struct err *e)
{
	const struct forward_spec *f = &s->vms[i].forwards[k];

	for (size_t vi = 0; vi <= i; vi++) {
		size_t n = vi < i ? s->vms[vi].n_forwards : k;

		for (size_t fk = 0; fk < n; fk++)
			if (f->host_port && s->vms[vi].forwards[fk].host_port == f->host_port)
				return spec_err(e,
					SPEC_PLACE("vms[%zu].forwards[%zu].host_port", i, k),
					"%u is already that of vms[%zu].forwards[%zu]",
					f->host_port, vi, fk);
	}
	return 0;
}

int spec_check_services(const struct sandbox_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->n_vms; i++) {
		if (s->vms[i].service && check_service(s, i, e) < 0)
			return -1;
		for (size_t k = 0; k < s->vms[i].n_forwards; k++)
			if (check_forward(s, i, k, e) < 0)
				return -1;
	}
	return 0;
}

int spec_refuse_containers(const struct vm_spec *vm, size_t i, const char *why, struct err *e)
{
	const struct {
		bool given;
		const char *name;
	} refused[] = {{vm->source.oci, "source.oci"}, {vm->source.dockerfile, "source.dockerfile"},
		{vm->service, "service"}, {vm->n_forwards > 0, "forwards"},
		{vm->n_aliases > 0, "aliases"}};

	for (size_t k = 0; k < sizeof(refused) / sizeof(refused[0]); k++)
		if (refused[k].given)
			return spec_unsupported(
				e, SPEC_PLACE("vms[%zu].%s", i, refused[k].name), "%s", why);
	for (size_t k = 0; k < vm->n_depends_on; k++)
		if (vm->depends_on[k].condition != SPEC_UNTIL_HEALTHY)
			return spec_unsupported(e,
				SPEC_PLACE("vms[%zu].depends_on[%zu].condition", i, k), "%s", why);
	return 0;
}
