#include "driver/pve-check.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "util/json.h"

static int check_native_value(const json_t *v, const char *place, struct err *e)
{
	if (json_is_object(v) || json_is_array(v))
		return spec_err(e, place, "expected text, a number, true, false or null");
	return 0;
}

/* Settings that would take a VM out of our hands are not for the escape hatch. */
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
	json_object_foreach(vm->native, key, value)
	{
		const char *place = SPEC_PLACE("vms[%zu].native.%s", i, key);

		if (is_ours(key))
			return spec_err(e, place, "moat sets this itself");
		if (check_native_value(value, place, e) < 0)
			return -1;
	}
	return 0;
}

static int check_native(const json_t *native, struct err *e)
{
	const char *key, *zone_key;
	json_t *value, *zone_value;

	json_object_foreach((json_t *)native, key, value)
	{
		if (strcmp(key, "auto_snat") == 0) {
			if (!json_is_boolean(value))
				return spec_err(e, "native.auto_snat", "expected true or false");
			continue;
		}
		if (strcmp(key, "zone") != 0)
			return spec_err(e, SPEC_PLACE("native.%s", key),
				"the proxmox driver knows only \"zone\" and \"auto_snat\"");
		if (!json_is_object(value))
			return spec_err(e, "native.zone", "expected an object");
		json_object_foreach(value, zone_key, zone_value)
		{
			if (check_native_value(
				    zone_value, SPEC_PLACE("native.zone.%s", zone_key), e) < 0)
				return -1;
		}
	}
	return 0;
}

int pve_check_spec(const struct sandbox_spec *spec, struct err *e)
{
	const struct networks_spec *net = &spec->networks;

	for (size_t i = 0; i < net->n_vnets; i++)
		if (net->vnets[i].egress.mode == SPEC_EGRESS_ALLOW)
			return spec_unsupported(e, SPEC_PLACE("networks.vnets[%zu].egress", i),
				"a list of what may be reached cannot be enforced on a Proxmox "
				"server; use deny, or open");
	for (size_t i = 0; i < spec->n_vms; i++)
		if (check_vm(&spec->vms[i], i, e) < 0)
			return -1;
	return check_native(spec->native, e);
}
