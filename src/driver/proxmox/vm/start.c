/*
 * An apply of the SDN ends the DHCP servers of all zones and starts them again one by one. QEMU
 * does not start meanwhile if a NIC of the VM is in such a zone, so the start is tried again.
 */
#include "driver/proxmox/vm/start.h"

#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/network/apply.h"
#include "driver/proxmox/vm/id.h"
#include "util/json.h"

#define LOCK_SECONDS 90.0
#define PAUSE        0.5
/* Seconds after an apply until every zone has its DHCP server again. */
enum { AFTER_APPLY = 3, START_TRIES = 6, TRANSIENT_TRIES = 4, LATEST = 100 };

static bool is_stopped(struct pve_sandbox *b, const struct op *op, unsigned vmid)
{
	auto_json json_t *status = NULL;
	struct err ignored;
	const char *text;

	if (pve_do(b->api, op, "GET", NULL, 0, &status, &ignored,
		    "/nodes/%s/qemu/%u/status/current", b->inst->node, vmid) < 0)
		return false;
	text = json_string_value(json_object_get(status, "status"));
	return text && strcmp(text, "stopped") == 0;
}

/* Whether networks were being applied on the node while the last start of the VM was tried: it is
 * younger than the end of such a task, or there is no end yet. Times are the server's. */
static bool met_an_apply(struct pve_sandbox *b, const struct op *op, unsigned vmid)
{
	auto_json json_t *tasks = NULL;
	json_int_t started = 0, ended = 0;
	const json_t *t;
	struct err ignored;
	char id[16];
	size_t i;

	snprintf(id, sizeof(id), "%u", vmid);
	if (pve_do(b->api, op, "GET", json_pack("{s:s, s:i}", "source", "all", "limit", LATEST), 0,
		    &tasks, &ignored, "/nodes/%s/tasks", b->inst->node) < 0)
		return true;
	json_array_foreach(tasks, i, t) {
		const char *type = json_string_value(json_object_get(t, "type"));
		const char *of = json_string_value(json_object_get(t, "id"));
		json_int_t end = json_integer_value(json_object_get(t, "endtime"));
		json_int_t start = json_integer_value(json_object_get(t, "starttime"));

		if (!type)
			continue;
		if (of && strcmp(of, id) == 0 && start > started &&
			(strcmp(type, "qmstart") == 0 || strcmp(type, "qmrollback") == 0))
			started = start;
		/* The whole cluster's, and the part of it on this node. */
		if (strcmp(type, "reloadnetworkall") != 0 && strcmp(type, "srvreload") != 0)
			continue;
		if (!end)
			return true;
		ended = end > ended ? end : ended;
	}
	return ended + AFTER_APPLY >= started;
}

/* Our own applies wait meanwhile. alone: and so do other VMs that start, since another client of
 * the server may be applying networks. */
static int try_once(struct pve_sandbox *b, const struct op *op, const struct pve_vm_call *call,
	bool alone, struct err *e)
{
	auto_turn struct turn *held = NULL;
	int rc;

	if (alone) {
		if (turn_take_saying(&b->site->applying, op, "networks to be applied", e) < 0)
			return -1;
		held = &b->site->applying;
		return pve_run_in_turn(b, op, call, e);
	}
	if (pve_start_enter(b->site, op, e) < 0)
		return -1;
	rc = pve_run_in_turn(b, op, call, e);
	pve_start_leave(b->site);
	return rc;
}

int pve_switch_on(struct pve_sandbox *b, const struct op *op, unsigned vmid, const char *path,
	const char *once, struct err *e)
{
	struct pve_vm_call call = {.vmid = vmid,
		.seconds = LOCK_SECONDS,
		.method = "POST",
		.path = path,
		.once = once};
	struct err late;

	for (int i = 0; try_once(b, op, &call, i > 0, e) < 0; i++) {
		if (i + 1 == START_TRIES || !pve_says_bridge_failed(e) ||
			!is_stopped(b, op, vmid) || !met_an_apply(b, op, vmid) ||
			op_pause(op, PAUSE * (1 << i), &late) < 0)
			return -1;
		op_progress(
			op, 0, 0, "networks were applied meanwhile, starting VM %u again", vmid);
	}
	return 0;
}

int pve_start(struct pve_sandbox *b, const struct op *op, unsigned vmid, struct err *e)
{
	for (int i = 0;; i++) {
		if (pve_switch_on(b, op, vmid, "status/start", NULL, e) == 0)
			return 0;
		/* If only the answer was lost, the VM runs already; otherwise it can be started
		 * once more. */
		if (pve_says_runs_already(e))
			return 0;
		if (e->kind != ERR_UNAVAILABLE || i + 1 == TRANSIENT_TRIES)
			return -1;
		if (op_pause(op, 0.2 * (1 << i), e) < 0)
			return -1;
	}
}
