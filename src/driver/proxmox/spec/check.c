#include "driver/proxmox/spec/check.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "util/json.h"
#include "util/str.h"

static int check_native_value(const json_t *v, const char *place, struct err *e)
{
	if (json_is_object(v) || json_is_array(v))
		return spec_err(e, place, "expected text, a number, true, false or null");
	return 0;
}

/* Settings that the spec's "native" must not change: without them moat could not find the VM
 * again, or not remove it. */
static bool is_ours(const char *key)
{
	static const char *const ours[] = {
		"tags", "description", "vmid", "node", "digest", "template", "lock", "skiplock"};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strcmp(key, ours[i]) == 0)
			return true;
	return false;
}

static int check_vm(const struct vm_spec *vm, size_t i, struct err *e)
{
	const char *key;
	json_t *value;

	if (vm->source.kind == SPEC_SOURCE_NONE)
		return spec_err(e, SPEC_PLACE("vms[%zu].source", i), "missing");
	if (vm->source.kind == SPEC_SOURCE_OVA && access(vm->source.ova, R_OK) < 0)
		return spec_err(e, SPEC_PLACE("vms[%zu].source.ova", i), "%s: %s", vm->source.ova,
			strerror(errno));
	if (spec_refuse_containers(vm, i, "only local VMs of the qemu driver have it", e) < 0)
		return -1;
	if (vm->ready_port)
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].ready_port", i),
			"moat reaches the networks of local sandboxes only; a healthcheck serves "
			"where the VM has the guest agent");
	if (vm->cdrom)
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].cdrom", i),
			"only local VMs of the qemu driver have it; put the ISO image into a "
			"template on the server");
	if (vm->n_files)
		return spec_unsupported(e, SPEC_PLACE("vms[%zu].files", i),
			"the server's disks are out of moat's reach before a VM boots; cloud_init "
			"can write files where the image has it, or copy them when the VM runs");
	json_object_foreach(vm->native, key, value) {
		const char *place = SPEC_PLACE("vms[%zu].native.%s", i, key);

		if (is_ours(key))
			return spec_err(e, place, "moat sets this itself");
		if (check_native_value(value, place, e) < 0)
			return -1;
	}
	return 0;
}

static int check_zone(const json_t *zone, struct err *e)
{
	const char *key;
	json_t *value;

	if (!json_is_object(zone))
		return spec_err(e, "native.zone", "expected an object");
	json_object_foreach((json_t *)zone, key, value) {
		const char *place = SPEC_PLACE("native.zone.%s", key);

		/* The zone is removed by the name that is in the journal. */
		if (strcmp(key, "zone") == 0 || strcmp(key, "type") == 0)
			return spec_err(e, place, "moat sets this itself");
		if (check_native_value(value, place, e) < 0)
			return -1;
	}
	return 0;
}

static int check_native(const json_t *native, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)native, key, value) {
		if (strcmp(key, "auto_snat") == 0 || strcmp(key, "isolated") == 0 ||
			strcmp(key, "wait_for_addresses") == 0) {
			if (!json_is_boolean(value))
				return spec_err(
					e, SPEC_PLACE("native.%s", key), "expected true or false");
			continue;
		}
		if (strcmp(key, "zone") != 0)
			return spec_err(e, SPEC_PLACE("native.%s", key),
				"the proxmox driver knows only \"zone\", \"auto_snat\", "
				"\"isolated\" and \"wait_for_addresses\"");
		if (check_zone(value, e) < 0)
			return -1;
	}
	return 0;
}

bool pve_uses_networks(const struct sandbox_spec *spec)
{
	for (size_t i = 0; i < spec->n_vms; i++)
		for (size_t k = 0; k < spec->vms[i].n_nics; k++)
			if (spec->vms[i].nics[k].vnet_index != SPEC_NO_VNET)
				return true;
	return false;
}

bool pve_is_isolated(const struct sandbox_spec *spec)
{
	return json_is_true(json_object_get(spec->native, "isolated"));
}

static int check_isolated_vm(const struct vm_spec *vm, size_t i, struct err *e)
{
	const char *key;
	json_t *value;

	if (!vm->nics_given)
		return spec_err(e, SPEC_PLACE("vms[%zu].nics", i),
			"missing: the template's own NICs lead out of an isolated sandbox");
	if (vm->firewall)
		return spec_err(e, SPEC_PLACE("vms[%zu].firewall", i),
			"leaves the rules to you, and an isolated sandbox needs moat's");
	json_object_foreach(vm->native, key, value) {
		if (str_starts(key, "net") || str_starts(key, "hostpci") ||
			strcmp(key, "args") == 0)
			return spec_err(e, SPEC_PLACE("vms[%zu].native.%s", i, key),
				"may lead out of an isolated sandbox");
	}
	return 0;
}

/* Refuses everything in the spec that gives egress. The rules on the server are firewall.c's
 * part. */
static int check_isolated(const struct sandbox_spec *spec, struct err *e)
{
	const struct networks_spec *net = &spec->networks;

	if (net->mode == SPEC_NET_EXISTING)
		return spec_err(e, "networks",
			"networks that the server has already are not an isolated sandbox's own");
	if (json_is_true(json_object_get(spec->native, "auto_snat")))
		return spec_err(e, "native.auto_snat", "is a way out of an isolated sandbox");
	if (json_object_get(spec->native, "zone"))
		return spec_err(e, "native.zone", "may lead out of an isolated sandbox");
	for (size_t i = 0; i < net->n_vnets; i++) {
		if (net->vnets[i].egress.mode != SPEC_EGRESS_DENY)
			return spec_err(e, SPEC_PLACE("networks.vnets[%zu].egress", i),
				"is a way out of an isolated sandbox");
		for (size_t k = 0; k < net->vnets[i].n_subnets; k++)
			if (net->vnets[i].subnets[k].snat)
				return spec_err(e,
					SPEC_PLACE("networks.vnets[%zu].subnets[%zu].snat", i, k),
					"is a way out of an isolated sandbox");
	}
	for (size_t i = 0; i < spec->n_vms; i++)
		if (check_isolated_vm(&spec->vms[i], i, e) < 0)
			return -1;
	return 0;
}

static int check_vnet(const struct vnet_spec *v, size_t i, struct err *e)
{
	if (v->gateway_vm)
		return spec_unsupported(e, SPEC_PLACE("networks.vnets[%zu].gateway_vm", i),
			"a server's DHCP names nothing but its own gateway; set dhcp: false, and "
			"let "
			"the VM serve DHCP itself");
	if (v->egress.mode == SPEC_EGRESS_ALLOW)
		return spec_unsupported(e, SPEC_PLACE("networks.vnets[%zu].egress", i),
			"a list of what may be reached cannot be enforced on a Proxmox "
			"server; use deny, or open");
	/* The server's DHCP answers from the gateway's address; without a gateway it does not
	 * answer. */
	for (size_t k = 0; k < v->n_subnets; k++)
		if (v->dhcp && v->subnets[k].n_dhcp_ranges && !v->subnets[k].gateway)
			return spec_unsupported(e,
				SPEC_PLACE("networks.vnets[%zu].subnets[%zu].gateway", i, k),
				"missing: a Proxmox server gives no addresses in a subnet "
				"without one");
	return 0;
}

int pve_check_spec(const struct sandbox_spec *spec, struct err *e)
{
	const struct networks_spec *net = &spec->networks;

	for (size_t i = 0; i < net->n_vnets; i++)
		if (check_vnet(&net->vnets[i], i, e) < 0)
			return -1;
	for (size_t i = 0; i < spec->n_vms; i++)
		if (check_vm(&spec->vms[i], i, e) < 0)
			return -1;
	if (check_native(spec->native, e) < 0)
		return -1;
	return pve_is_isolated(spec) ? check_isolated(spec, e) : 0;
}
