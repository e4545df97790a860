#include "driver/proxmox/network/sdn.h"

#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/task.h"
#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/network/apply.h"
#include "util/json.h"
#include "util/str.h"
#include "util/thread/lock.h"

#define PENDING_SECONDS 60.0
#define PENDING_LOOK    0.5
enum { APPLY_TRIES = 3, QUIET_LOOKS = 3, STATUS_MAX = 33 };

/* ---- checking what the node has applied ---- */

/* What the node says of the sandbox's zone: "available", "pending", "error"; "missing" if it has
 * no such zone. */
static int zone_status(
	struct pve_sandbox *b, const struct op *op, char ret[STATUS_MAX], struct err *e)
{
	auto_json json_t *zones = NULL;
	const json_t *z;
	size_t i;

	if (pve_do(b->api, op, "GET", NULL, 0, &zones, e, "/nodes/%s/sdn/zones", b->inst->node) < 0)
		return -1;
	snprintf(ret, STATUS_MAX, "missing");
	json_array_foreach(zones, i, z) {
		const char *name = json_string_value(json_object_get(z, "zone"));
		const char *text = json_string_value(json_object_get(z, "status"));

		if (name && text && strcmp(name, b->zone) == 0)
			snprintf(ret, STATUS_MAX, "%s", text);
	}
	return 0;
}

/* Applies, unless mine is 0 or has been applied, and then reads the zone's status. It keeps the
 * turn meanwhile: an apply for another sandbox makes all zones "pending" until the node has
 * caught up. */
static int apply_and_look(struct pve_sandbox *b, const struct op *op, uint64_t mine,
	char ret[STATUS_MAX], struct err *e)
{
	auto_turn struct turn *held = NULL;

	if (turn_take_saying(&b->site->applying, op, "networks to be applied", e) < 0)
		return -1;
	held = &b->site->applying;
	if (mine && pve_apply_in_turn(b->site, op, mine, e) < 0)
		return -1;
	return zone_status(b, op, ret, e);
}

/* Whether networks are being applied anywhere in the cluster. */
static int is_applying(struct pve_sandbox *b, const struct op *op, bool *ret, struct err *e)
{
	auto_json json_t *tasks = NULL;
	const json_t *t;
	size_t i;

	if (pve_do(b->api, op, "GET", NULL, 0, &tasks, e, "/cluster/tasks") < 0)
		return -1;
	*ret = false;
	json_array_foreach(tasks, i, t) {
		*ret |= pve_task_runs(t, "reloadnetworkall") || pve_task_runs(t, "srvreload");
	}
	return 0;
}

/* A zone is pending while anybody's apply runs, and stays so on a node whose part of it failed.
 * This waits for the former, because one more apply would only make it longer. */
static int wait_for_node(
	struct pve_sandbox *b, const struct op *op, char status[STATUS_MAX], struct err *e)
{
	struct op part = op_within(op, PENDING_SECONDS);
	unsigned quiet = 0;

	while (strcmp(status, "pending") == 0) {
		bool runs;

		if (is_applying(b, op, &runs, e) < 0)
			return -1;
		quiet = runs ? 0 : quiet + 1;
		if (quiet == QUIET_LOOKS)
			return 0;
		if (runs)
			op_progress(op, 0, 0, "waiting for networks that others apply");
		if (op_pause(&part, PENDING_LOOK, e) < 0)
			return op_check(op, e);
		if (apply_and_look(b, op, 0, status, e) < 0)
			return -1;
	}
	return 0;
}

/* Writes what came of the node's last reload: ": command 'ifreload -a' failed ...", and the end of
 * its log; nothing if that is not known. */
static void read_reload(struct pve_sandbox *b, const struct op *op, char *ret, size_t size)
{
	auto_json json_t *tasks = NULL;
	const char *upid, *exit;
	struct err ignored;
	const json_t *last;
	char text[200];

	ret[0] = '\0';
	if (pve_do(b->api, op, "GET",
		    json_pack("{s:s, s:s, s:i}", "source", "all", "typefilter", "srvreload",
			    "limit", 1),
		    0, &tasks, &ignored, "/nodes/%s/tasks", b->inst->node) < 0)
		return;
	last = json_array_get(tasks, 0);
	upid = json_string_value(json_object_get(last, "upid"));
	exit = json_string_value(json_object_get(last, "status"));
	if (!upid || !exit || strcmp(exit, "OK") == 0)
		return;
	str_escape(exit, strlen(exit), text, sizeof(text));
	snprintf(ret, size, ": %s", text);
	pve_task_log(b->api, op, upid, exit, ret, size);
}

int pve_sdn_make(struct pve_sandbox *b, const struct op *op, uint64_t number, struct err *e)
{
	char status[STATUS_MAX], why[700];

	op_progress(op, 0, 0, "applying networks");
	/* The task of an apply ends with OK even if the node did not take over the zone. */
	for (int i = 1;; i++) {
		if (apply_and_look(b, op, number, status, e) < 0 ||
			wait_for_node(b, op, status, e) < 0)
			return -1;
		if (strcmp(status, "available") == 0)
			return 0;
		read_reload(b, op, why, sizeof(why));
		if (i == APPLY_TRIES)
			break;
		op_progress(op, 0, 0, "applying networks again%s", why);
		number = pve_apply_want(b->site);
	}
	return err_set(e, ERR_BACKEND,
		"node %s did not take over the network zone %s, which is \"%s\" there%s",
		b->inst->node, b->zone, status, why);
}

/* ---- removing ---- */

static bool gone(const struct err *e)
{
	return e->kind == ERR_NOT_FOUND || pve_says_missing(e->msg);
}

/* The server does not delete a subnet that has addresses, except for its gateway's. */
static int remove_addresses(
	struct pve_api *api, const struct op *op, const char *zone, struct err *e)
{
	auto_json json_t *all = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(api, op, "GET", NULL, PVE_STUBBORN, &all, e, "/cluster/sdn/ipams/pve/status") <
		0)
		return gone(e) ? 0 : -1;
	json_array_foreach(all, i, one) {
		const char *z = json_string_value(json_object_get(one, "zone"));
		const char *vnet = json_string_value(json_object_get(one, "vnet"));
		const char *ip = json_string_value(json_object_get(one, "ip"));
		const char *mac = json_string_value(json_object_get(one, "mac"));
		json_t *params;

		if (!z || strcmp(z, zone) != 0 || !vnet || !ip ||
			json_integer_value(json_object_get(one, "gateway")))
			continue;
		params = json_pack("{s:s, s:s, s:s*}", "zone", zone, "ip", ip, "mac", mac);
		if (pve_do(api, op, "DELETE", params, PVE_STUBBORN, NULL, e,
			    "/cluster/sdn/vnets/%s/ips", vnet) < 0 &&
			!gone(e) && e->kind != ERR_BACKEND)
			return -1;
	}
	return 0;
}

static int remove_vnet(struct pve_api *api, const struct op *op, const char *vnet, struct err *e)
{
	auto_json json_t *subnets = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(api, op, "GET", NULL, PVE_STUBBORN, &subnets, e, "/cluster/sdn/vnets/%s/subnets",
		    vnet) < 0)
		return gone(e) ? 0 : -1;
	json_array_foreach(subnets, i, one) {
		const char *id = json_string_value(json_object_get(one, "id"));

		if (!id)
			id = json_string_value(json_object_get(one, "subnet"));
		if (id &&
			pve_do(api, op, "DELETE", NULL, PVE_STUBBORN, NULL, e,
				"/cluster/sdn/vnets/%s/subnets/%s", vnet, id) < 0 &&
			!gone(e))
			return -1;
	}
	if (pve_do(api, op, "DELETE", NULL, PVE_STUBBORN, NULL, e, "/cluster/sdn/vnets/%s", vnet) <
			0 &&
		!gone(e))
		return -1;
	return 0;
}

/* Whose a zone is. 1: all its vnets carry the stamp, or it has none; 0: none of them does, so
 * another installation has taken the name that we were about to take. */
static int is_ours(const json_t *vnets, const char *zone, const char *stamp, struct err *e)
{
	size_t ours = 0, others = 0, i;
	const json_t *v;

	json_array_foreach((json_t *)vnets, i, v) {
		const char *z = json_string_value(json_object_get(v, "zone"));
		const char *alias = json_string_value(json_object_get(v, "alias"));

		if (!z || strcmp(z, zone) != 0)
			continue;
		if (alias && strstr(alias, stamp))
			ours++;
		else
			others++;
	}
	if (ours && others)
		return err_set(e, ERR_BACKEND,
			"zone %s has a network that is not of this sandbox: it stays", zone);
	return !others;
}

/* The zone is deleted from the configuration. Applies that if it is still running: a daemon may
 * have been killed between the two. */
static int apply_if_running(
	struct pve_site *site, const struct op *op, const char *zone, struct err *e)
{
	auto_json json_t *running = NULL;
	const json_t *z;
	size_t i;

	if (pve_do(pve_site_api(site), op, "GET", json_pack("{s:i}", "running", 1), PVE_STUBBORN,
		    &running, e, "/cluster/sdn/zones") < 0)
		return -1;
	json_array_foreach(running, i, z) {
		const char *name = json_string_value(json_object_get(z, "zone"));

		if (name && strcmp(name, zone) == 0)
			return pve_apply_later(site, op, pve_apply_want(site), e);
	}
	return 0;
}

int pve_sdn_remove_zone(struct pve_site *site, const struct op *op, const char *zone,
	const char *stamp, struct err *e)
{
	struct pve_api *api = pve_site_api(site);
	auto_json json_t *vnets = NULL, *there = NULL;
	auto_pve_change struct pve_change change = {0};
	uint64_t number;
	const json_t *v;
	size_t i;
	int ours;

	if (pve_do(api, op, "GET", NULL, PVE_STUBBORN, &there, e, "/cluster/sdn/zones/%s", zone) <
		0)
		return gone(e) ? apply_if_running(site, op, zone, e) : err_wrap(e, "zone %s", zone);
	if (pve_do(api, op, "GET", NULL, PVE_STUBBORN, &vnets, e, "/cluster/sdn/vnets") < 0)
		return -1;
	ours = is_ours(vnets, zone, stamp, e);
	if (ours <= 0)
		return ours;
	pve_change_begin(&change, site);
	if (remove_addresses(api, op, zone, e) < 0)
		return -1;
	json_array_foreach(vnets, i, v) {
		const char *z = json_string_value(json_object_get(v, "zone"));
		const char *id = json_string_value(json_object_get(v, "vnet"));

		if (z && id && strcmp(z, zone) == 0 && remove_vnet(api, op, id, e) < 0)
			return err_wrap(e, "network %s", id);
	}
	if (pve_do(api, op, "DELETE", NULL, PVE_STUBBORN, NULL, e, "/cluster/sdn/zones/%s", zone) <
			0 &&
		!gone(e))
		return err_wrap(e, "zone %s", zone);
	number = pve_apply_want(site);
	pve_change_end(&change);
	return pve_apply_later(site, op, number, e);
}
