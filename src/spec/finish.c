#include "spec/finish.h"

#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"

static bool not_given(const json_t *object, const char *name)
{
	const json_t *member = json_object_get(object, name);

	return !member || json_is_null(member);
}

/* "auto" is one network. NICs can refer to it by its alias; the driver chooses its subnet. */
static int add_auto_vnet(struct networks_spec *net, struct err *e)
{
	net->vnets = calloc(1, sizeof(*net->vnets));
	if (!net->vnets)
		return err_oom(e);
	net->n_vnets = 1;
	net->dhcp = net->vnets[0].dhcp = true;
	return str_dup(SPEC_AUTO_ALIAS, &net->vnets[0].alias, e);
}

static void finish_vnet(struct vnet_spec *vnet, const json_t *j, bool dhcp)
{
	if (not_given(j, "dhcp"))
		vnet->dhcp = dhcp;
}

static int finish_networks(struct sandbox_spec *s, const json_t *j, struct err *e)
{
	struct networks_spec *net = &s->networks;
	const json_t *vnets;

	switch (net->mode) {
	case SPEC_NET_AUTO:
		return add_auto_vnet(net, e);
	case SPEC_NET_EXISTING:
		if (s->driver != SPEC_DRIVER_PROXMOX)
			net->mode = SPEC_NET_NONE;
		return 0;
	case SPEC_NET_NONE:
		return 0;
	case SPEC_NET_VNETS:
		vnets = json_object_get(json_object_get(j, "networks"), "vnets");
		for (size_t i = 0; i < net->n_vnets; i++)
			finish_vnet(&net->vnets[i], json_array_get(vnets, i), net->dhcp);
		return 0;
	}
	return 0;
}

static enum spec_source source_kind(const struct source_spec *src)
{
	if (src->image)
		return SPEC_SOURCE_IMAGE;
	if (src->built_in)
		return SPEC_SOURCE_BUILT_IN;
	if (src->ova)
		return SPEC_SOURCE_OVA;
	if (src->template_tag)
		return SPEC_SOURCE_TEMPLATE_TAG;
	if (src->oci)
		return SPEC_SOURCE_OCI;
	if (src->dockerfile)
		return SPEC_SOURCE_DOCKERFILE;
	return SPEC_SOURCE_NONE;
}

/* Services are many and small; a whole system needs more. */
enum { RAM_MB = 2048, SERVICE_RAM_MB = 512 };

static int finish_service(struct vm_spec *vm, struct err *e)
{
	bool container = vm->service || vm->source.oci || vm->source.dockerfile;

	if (!vm->ram_mb)
		vm->ram_mb = container ? SERVICE_RAM_MB : RAM_MB;
	if (vm->healthcheck && vm->healthcheck->kind == SPEC_HEALTH_NONE) {
		free(vm->healthcheck); /* "none" owns nothing */
		vm->healthcheck = NULL;
		vm->no_healthcheck = true;
	}
	if (vm->service && !vm->service->name)
		return str_dup(vm->name, &vm->service->name, e);
	return 0;
}

static int finish_names(struct sandbox_spec *s, struct err *e)
{
	const struct vm_spec *first = spec_default_vm(s);

	if (!first)
		return spec_err(e, "vms", "no VM has is_sandbox; at least one must");
	for (size_t i = 0; i < s->n_vms; i++) {
		if (s->vms[i].name)
			continue;
		if (&s->vms[i] != first)
			return spec_err(e, SPEC_PLACE("vms[%zu].name", i),
				"is missing; only the first sandbox VM may go without");
		if (str_dup(SPEC_DEFAULT_NAME, &s->vms[i].name, e) < 0)
			return -1;
	}
	return 0;
}

static int add_default_nic(struct vm_spec *vm, const struct networks_spec *net, struct err *e)
{
	vm->nics = calloc(1, sizeof(*vm->nics));
	if (!vm->nics)
		return err_oom(e);
	vm->n_nics = 1;
	return str_dup(net->vnets[0].alias, &vm->nics[0].vnet, e);
}

static int finish_nics(struct vm_spec *vm, const struct networks_spec *net, struct err *e)
{
	bool given = vm->nics_given, has_own = vm->source.kind == SPEC_SOURCE_TEMPLATE_TAG ||
					       vm->source.kind == SPEC_SOURCE_NONE ||
					       net->mode == SPEC_NET_EXISTING;

	vm->nics_given = given || net->mode == SPEC_NET_NONE || !has_own;
	if (!given && vm->nics_given && net->n_vnets > 0 && add_default_nic(vm, net, e) < 0)
		return -1;
	for (size_t i = 0; i < vm->n_nics; i++) {
		struct nic_spec *nic = &vm->nics[i];

		nic->vnet_index = SPEC_NO_VNET;
		for (size_t k = 0; k < net->n_vnets && nic->vnet_index == SPEC_NO_VNET; k++)
			if (strcmp(net->vnets[k].alias, nic->vnet) == 0)
				nic->vnet_index = k;
	}
	return 0;
}

int spec_finish(struct sandbox_spec *s, const json_t *j, struct err *e)
{
	if (finish_networks(s, j, e) < 0 || finish_names(s, e) < 0)
		return -1;
	for (size_t i = 0; i < s->n_vms; i++) {
		struct vm_spec *vm = &s->vms[i];

		vm->source.kind = source_kind(&vm->source);
		/* Without one nobody could put the pointer anywhere on the screen. */
		if (not_given(json_array_get(json_object_get(j, "vms"), i), "tablet"))
			vm->tablet = vm->vga != SPEC_VGA_NONE;
		if (finish_service(vm, e) < 0 || finish_nics(vm, &s->networks, e) < 0)
			return -1;
	}
	return 0;
}
