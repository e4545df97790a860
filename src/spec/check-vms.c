#include "spec/check-vms.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"

static int check_name(const struct sandbox_spec *s, size_t i, struct err *e)
{
	const char *name = s->vms[i].name;
	const struct vm_spec *first = spec_default_vm(s);

	for (size_t k = 0; k < i; k++)
		if (strcasecmp(s->vms[k].name, name) == 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].name", i),
				"\"%s\" is already the name of vms[%zu]", name, k);
	/* Commands for the VM "default" and commands that name no VM would go to two VMs. */
	if (&s->vms[i] != first && strcasecmp(name, SPEC_DEFAULT_NAME) == 0)
		return spec_err(e, SPEC_PLACE("vms[%zu].name", i),
			"\"%s\" is reserved for the first sandbox VM, vms[%zu]", name,
			(size_t)(first - s->vms));
	return 0;
}

static int check_depends_on(const struct sandbox_spec *s, size_t i, struct err *e)
{
	const struct vm_spec *vm = &s->vms[i];

	for (size_t k = 0; k < vm->n_depends_on; k++) {
		const char *name = vm->depends_on[k].vm;
		const char *place = SPEC_PLACE("vms[%zu].depends_on[%zu]", i, k);
		const struct vm_spec *other = spec_find_vm(s, name);

		/* By its VM's name: what waits for what is decided by those. */
		if (!other || strcasecmp(other->name, name) != 0)
			return spec_err(e, place, "no VM has the name \"%s\"", name);
		if (other == vm)
			return spec_err(e, place, "\"%s\" cannot wait for itself", name);
		for (size_t earlier = 0; earlier < k; earlier++)
			if (strcasecmp(vm->depends_on[earlier].vm, name) == 0)
				return spec_err(e, place, "\"%s\" is listed twice", name);
	}
	return 0;
}

/* A depth-first search for a cycle: path[0] waits for path[1], that for path[2], and so on. */
struct search {
	const struct sandbox_spec *s;
	size_t path[SPEC_VMS_MAX], length;
	bool done[SPEC_VMS_MAX]; /* no cycle can be reached from this VM */
};

/* Finds a VM that waits for itself; the cycle is then path[*ret_start..length-1]. */
static bool find_cycle(struct search *f, size_t vm, size_t *ret_start)
{
	for (size_t i = 0; i < f->length; i++) {
		if (f->path[i] == vm) {
			*ret_start = i;
			return true;
		}
	}
	if (f->done[vm])
		return false;
	f->path[f->length++] = vm; /* each VM at most once, so it fits and ends */
	for (size_t other = 0; other < f->s->n_vms; other++)
		if (spec_waits_for(f->s, vm, other) && find_cycle(f, other, ret_start))
			return true;
	f->length--;
	f->done[vm] = true;
	return false;
}

static int check_cycles(const struct sandbox_spec *s, struct err *e)
{
	struct search f = {.s = s};
	char text[512];
	size_t start, used = 0;

	for (size_t i = 0; i < s->n_vms; i++) {
		if (!find_cycle(&f, i, &start))
			continue;
		for (size_t k = start; k < f.length && used < sizeof(text); k++)
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s -> ", s->vms[f.path[k]].name);
		return spec_err(e, SPEC_PLACE("vms[%zu].depends_on", f.path[start]),
			"these VMs wait for each other: %s%s", text, s->vms[f.path[start]].name);
	}
	return 0;
}

int spec_check_vms(const struct sandbox_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->n_vms; i++) {
		const struct vm_spec *vm = &s->vms[i];

		if (vm->source.kind == SPEC_SOURCE_NONE && s->driver != SPEC_DRIVER_VAGRANT)
			return spec_err(e, SPEC_PLACE("vms[%zu].source", i), "is missing");
		if (check_name(s, i, e) < 0)
			return -1;
		if (vm->healthcheck && !vm->healthcheck->test[0][0])
			return spec_err(e, SPEC_PLACE("vms[%zu].healthcheck.test[0]", i),
				"is empty; it names the program");
	}
	for (size_t i = 0; i < s->n_vms; i++)
		if (check_depends_on(s, i, e) < 0)
			return -1;
	return check_cycles(s, e);
}
