#include "driver/proxmox/cleanup/sweep.h"

#include <stdio.h>

#include "driver/proxmox/api/upload.h"
#include "driver/proxmox/network/sdn.h"
#include "driver/proxmox/site/access.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/site/node.h"
#include "driver/proxmox/vm/remove.h"
#include "util/auto.h"
#include "util/json.h"

struct sweep {
	struct pve_driver *d;
	const struct op *op;
	bool (*known)(void *arg, const char *id);
	void (*said)(void *arg, const char *what);
	void *arg;
};

static bool is_lost(const struct sweep *s, const char *text, char ret_stamp[64])
{
	char id[32];

	if (!pve_stamp_find(s->d, text, id) || s->known(s->arg, id) || pve_sandbox_lives(s->d, id))
		return false;
	snprintf(ret_stamp, 64, "moat-%s-%s", s->d->install, id);
	return true;
}

static int sweep_vms(const struct sweep *s, struct pve_site *site, struct err *e)
{
	auto_json json_t *vms = NULL;
	const json_t *vm;
	char stamp[64], text[128];
	size_t i;

	if (pve_do(pve_site_api(site), s->op, "GET", json_pack("{s:s}", "type", "vm"), 0, &vms, e,
		    "/cluster/resources") < 0)
		return -1;
	json_array_foreach(vms, i, vm) {
		struct pve_removal removal = {
			.node = json_string_value(json_object_get(vm, "node")),
			.vmid = (unsigned)json_integer_value(json_object_get(vm, "vmid")),
			.stamp = stamp};

		if (json_integer_value(json_object_get(vm, "template")) || !removal.node ||
			!is_lost(s, json_string_value(json_object_get(vm, "tags")), stamp))
			continue;
		if (pve_vm_remove(site, s->op, &removal, e) < 0)
			return -1;
		snprintf(text, sizeof(text), "VM %u (%s)", removal.vmid, stamp);
		s->said(s->arg, text);
	}
	return 0;
}

static int sweep_zones(const struct sweep *s, struct pve_site *site, struct err *e)
{
	auto_json json_t *vnets = NULL;
	const json_t *v;
	char stamp[64], text[128];
	size_t i;

	if (pve_do(pve_site_api(site), s->op, "GET", NULL, 0, &vnets, e, "/cluster/sdn/vnets") < 0)
		return -1;
	json_array_foreach(vnets, i, v) {
		const char *zone = json_string_value(json_object_get(v, "zone"));

		if (!zone || !is_lost(s, json_string_value(json_object_get(v, "alias")), stamp))
			continue;
		if (pve_sdn_remove_zone(site, s->op, zone, stamp, e) < 0)
			return -1;
		snprintf(text, sizeof(text), "zone %.16s (%s)", zone, stamp);
		s->said(s->arg, text);
	}
	return 0;
}

/* storage: NULL if the node has none for such content. */
static int sweep_content(const struct sweep *s, struct pve_inst *inst, const char *storage,
	const char *content, struct err *e)
{
	struct pve_api *api = pve_site_api(inst->site);
	auto_json json_t *volumes = NULL;
	const json_t *v;
	char stamp[64];
	size_t i;

	if (!storage)
		return 0;
	if (pve_do(api, s->op, "GET", json_pack("{s:s}", "content", content), 0, &volumes, e,
		    "/nodes/%s/storage/%s/content", inst->node, storage) < 0)
		return -1;
	json_array_foreach(volumes, i, v) {
		const char *volid = json_string_value(json_object_get(v, "volid"));

		if (!volid || !is_lost(s, volid, stamp))
			continue;
		if (pve_volume_delete(api, s->op, inst->node, volid, e) < 0)
			return -1;
		s->said(s->arg, volid);
	}
	return 0;
}

static int sweep_volumes(const struct sweep *s, struct pve_inst *inst, struct err *e)
{
	auto_pve_storages struct pve_storages st = {0};

	if (pve_storages_find(inst, s->op, &st, e) < 0 ||
		sweep_content(s, inst, st.iso, "iso", e) < 0)
		return -1;
	return sweep_content(s, inst, st.import, "import", e);
}

int pve_sweep(struct driver *base, const struct op *op, bool (*known)(void *arg, const char *id),
	void (*said)(void *arg, const char *what), void *arg, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	struct sweep s = {.d = d, .op = op, .known = known, .said = said, .arg = arg};
	auto_free struct pve_inst **insts = NULL;

	if (pve_access_read(d, NULL, &insts, e) < 0)
		return -1;
	for (size_t i = 0; insts[i]; i++) {
		bool again = false;

		for (size_t k = 0; k < i; k++)
			again |= insts[k]->site == insts[i]->site;
		if (!again && (sweep_vms(&s, insts[i]->site, e) < 0 ||
				      sweep_zones(&s, insts[i]->site, e) < 0))
			return err_wrap(e, "%s", insts[i]->site->key);
		if (sweep_volumes(&s, insts[i], e) < 0)
			return err_wrap(e, "%s", insts[i]->id);
	}
	return 0;
}
