/*
 * An entry may name something that was never made, or is still being made: then the removal waits
 * until no task on the server can make it any more.
 */
#include "driver/proxmox/cleanup/reclaim.h"

#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/api/task.h"
#include "driver/proxmox/api/upload.h"
#include "driver/proxmox/network/names.h"
#include "driver/proxmox/network/sdn.h"
#include "driver/proxmox/site/access.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/vm/remove.h"
#include "util/json.h"

#define COMING_LOOK 0.5 /* seconds between two looks for what the server may still be making */
enum { COMING_LOOKS = 4 };

/* Removes a zone, and looks a few more times if a request that makes it may still be on its way:
 * a zone without vnets has no stamp, so no sweep would find it later. */
static int remove_zone(struct pve_site *site, const struct op *op, const char *zone,
	const struct pve_removal *of, struct err *e)
{
	int rc = pve_sdn_remove_zone(site, op, zone, of->stamp, e);

	for (int i = 0; rc == 0 && of->maybe_coming && i < COMING_LOOKS; i++)
		rc = op_pause(op, COMING_LOOK, e) < 0
			     ? -1
			     : pve_sdn_remove_zone(site, op, zone, of->stamp, e);
	if (rc == 0)
		pve_names_give(site, zone);
	return rc;
}

/* ---- removing a file ---- */

/* Whether a task was started with the site's login. The site's key begins with "user@realm", and
 * goes on with "!" and a token or with "@" and the server; the tasks of a token have the user
 * "user@realm!token". */
static bool is_by_us(const struct pve_site *site, const json_t *task)
{
	const char *user = json_string_value(json_object_get(task, "user"));
	size_t n = user ? strcspn(user, "!") : 0;

	return n > 0 && strncmp(site->key, user, n) == 0 &&
	       (site->key[n] == '@' || site->key[n] == '!');
}

/*
 * Whether the server may be about to put the file into place. A download is known by the file's
 * name and is told to stop; if it cannot be stopped, it ends by itself. An uploaded file is copied
 * by a task that does not say what it copies, so each such task of ours counts.
 */
static int is_coming(struct pve_site *site, const struct op *op, const char *node, const char *file,
	bool *ret, struct err *e)
{
	struct pve_api *api = pve_site_api(site);
	auto_json json_t *tasks = NULL;
	const json_t *t;
	size_t i;

	*ret = false;
	if (pve_task_list(api, op, node, &tasks, e) < 0)
		return -1;
	json_array_foreach(tasks, i, t) {
		const char *id = json_string_value(json_object_get(t, "id"));
		const char *upid = json_string_value(json_object_get(t, "upid"));
		struct err ignored;

		*ret |= pve_task_runs(t, "imgcopy") && is_by_us(site, t);
		if (!pve_task_runs(t, "download") || !id || strcmp(id, file) != 0 || !upid)
			continue;
		*ret = true;
		if (pve_do(api, op, "DELETE", NULL, 0, NULL, &ignored, "/nodes/%s/tasks/%s", node,
			    upid) < 0)
			continue;
	}
	return 0;
}

/* volid: "local:import/FILE". Waits until no task can make the file any more: the server says OK
 * to deleting a file that is not there yet, and nobody would look for it later. */
static int remove_volume(struct pve_site *site, const struct op *op, const char *volid,
	const struct pve_removal *of, struct err *e)
{
	const char *file = strrchr(volid, '/');
	unsigned looks = 0;

	while (of->maybe_coming && file && looks < COMING_LOOKS) {
		bool coming;

		if (is_coming(site, op, of->node, file + 1, &coming, e) < 0 ||
			op_pause(op, COMING_LOOK, e) < 0)
			return err_wrap(e, "%s", volid);
		looks = coming ? 0 : looks + 1;
	}
	return pve_volume_delete(pve_site_api(site), op, of->node, volid, e);
}

/* ---- entries ---- */

int pve_reclaim(
	struct driver *base, const struct op *op, const struct journal_entry *t, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	auto_json json_t *ref = NULL;
	const char *at, *node, *stamp, *name;
	struct pve_removal removal = {.maybe_coming = strcmp(t->state, "intent") == 0};
	struct pve_site *site;

	if (json_parse_object((struct bytes){(const uint8_t *)t->ref, strlen(t->ref)}, &ref, e) <
			0 ||
		json_get(ref, t->kind, e, "{s:s, s:s, s:s, s:s}", "at", &at, "node", &node, "stamp",
			&stamp, "name", &name) < 0 ||
		pve_access_site(d, at, &site, e) < 0)
		return -1;
	removal.node = node;
	removal.stamp = stamp;
	removal.keep_template = strcmp(t->kind, "template") == 0;
	if (pve_entry_is_vm(t)) {
		removal.vmid = (unsigned)strtoul(name, NULL, 10);
		return pve_vm_remove(site, op, &removal, e);
	}
	if (strcmp(t->kind, "zone") == 0)
		return remove_zone(site, op, name, &removal, e);
	if (strcmp(t->kind, "volume") == 0)
		return remove_volume(site, op, name, &removal, e);
	return err_set(e, ERR_INTERNAL, "the proxmox driver knows no \"%s\"", t->kind);
}
