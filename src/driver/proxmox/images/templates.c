#include "driver/proxmox/images/templates.h"

#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/task.h"
#include "driver/proxmox/site/access.h"
#include "driver/proxmox/spec/args.h"
#include "util/auto.h"
#include "util/json.h"

static bool is_template(const json_t *vm)
{
	const char *tags = json_string_value(json_object_get(vm, "tags"));

	return json_integer_value(json_object_get(vm, "template")) && pve_has_tag(tags, "inspect");
}

static bool is_made_by_us(const json_t *vm)
{
	return pve_has_tag(json_string_value(json_object_get(vm, "tags")), "moat-template");
}

static int add_templates(struct pve_inst *inst, const struct op *op, json_t *to, struct err *e)
{
	auto_json json_t *vms = NULL;
	const json_t *vm;
	size_t i;

	if (pve_do(pve_site_api(inst->site), op, "GET", NULL, 0, &vms, e, "/nodes/%s/qemu",
		    inst->node) < 0)
		return err_wrap(e, "%s", inst->id);
	json_array_foreach(vms, i, vm) {
		const char *name = json_string_value(json_object_get(vm, "name"));
		const char *tags = json_string_value(json_object_get(vm, "tags"));

		if (!is_template(vm))
			continue;
		json_array_append_new(to,
			json_pack("{s:s, s:s, s:s, s:O, s:o, s:o, s:I, s:b}", "pool", inst->pool,
				"instance", inst->id, "node", inst->node, "vmid",
				json_object_get(vm, "vmid"), "name", json_text(name ? name : ""),
				"tags", json_text(tags ? tags : ""), "size",
				(json_int_t)json_number_value(json_object_get(vm, "maxdisk")),
				"made_by_moat", is_made_by_us(vm)));
	}
	return 0;
}

/* Finds the template to remove by its number, or by a name or tag that only one template has. */
static int find_removable(const json_t *all, const char *which, const json_t **ret, struct err *e)
{
	const json_t *t, *found = NULL;
	size_t i;

	json_array_foreach((json_t *)all, i, t) {
		char id[24];

		snprintf(id, sizeof(id), "%" JSON_INTEGER_FORMAT,
			json_integer_value(json_object_get(t, "vmid")));
		if (strcmp(id, which) != 0 &&
			strcmp(json_string_value(json_object_get(t, "name")), which) != 0 &&
			!pve_has_tag(json_string_value(json_object_get(t, "tags")), which))
			continue;
		if (found)
			return err_set(
				e, ERR_INVALID, "%s: there are several; give its number", which);
		found = t;
	}
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "no template %s", which);
	if (!json_is_true(json_object_get(found, "made_by_moat")))
		return err_set(e, ERR_PERMISSION,
			"template %s was not made by moat: remove it on the server", which);
	*ret = found;
	return 0;
}

static int remove_template(
	struct pve_inst *const *insts, const struct op *op, const json_t *t, struct err *e)
{
	const char *id = json_string_value(json_object_get(t, "instance"));
	unsigned vmid = (unsigned)json_integer_value(json_object_get(t, "vmid"));

	for (size_t i = 0; insts[i]; i++)
		if (strcmp(insts[i]->id, id) == 0 &&
			strcmp(insts[i]->node, json_string_value(json_object_get(t, "node"))) == 0)
			return pve_run(pve_site_api(insts[i]->site), op, "DELETE",
				json_pack("{s:i}", "purge", 1), PVE_TWICE, e, "/nodes/%s/qemu/%u",
				insts[i]->node, vmid);
	return err_set(e, ERR_INTERNAL, "template %u is nowhere", vmid);
}

int pve_images(
	struct driver *base, const struct op *op, const json_t *args, json_t **ret, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	auto_free struct pve_inst **insts = NULL;
	auto_json json_t *all = json_array();
	const char *pool = NULL, *wanted = NULL;
	json_t *access = NULL;
	const json_t *t;
	unsigned n = 0;

	if (json_get((json_t *)args, "args", e, "{s?s, s?s, s?o}", "pool", &pool, "remove", &wanted,
		    "access", &access) < 0 ||
		pve_access_read(d, access, &insts, e) < 0)
		return -1;
	for (size_t i = 0; insts[i]; i++) {
		if (pool && strcmp(pool, insts[i]->pool) != 0)
			continue;
		n++;
		if (add_templates(insts[i], op, all, e) < 0)
			return -1;
	}
	if (!n)
		return err_set(e, ERR_NOT_FOUND, "no server of pool %s is configured",
			pool ? pool : "(any)");
	if (wanted &&
		(find_removable(all, wanted, &t, e) < 0 || remove_template(insts, op, t, e) < 0))
		return -1;
	return json_make(ret, e, "{s:O}", "templates", all);
}
