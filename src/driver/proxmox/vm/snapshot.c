#include "driver/proxmox/vm/snapshot.h"

#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/site/sandbox.h"
#include "driver/proxmox/vm/id.h"
#include "driver/proxmox/vm/start.h"
#include "driver/proxmox/vm/vm.h"
#include "util/json.h"
#include "util/thread/parallel.h"

#define LOCK_PAUSE 0.5
/* After a rollback the server may hold the lock of the VM's configuration for half a minute, and
 * no status tells; each try waits for ten seconds on the server. */
#define TURN_SECONDS 90.0
enum { LOCK_TRIES = 120 };

struct job {
	struct pve_sandbox *b;
	char name[41];
	const char *text;
};

static int take_new(struct job *j, struct pve_vm *vm, const struct op *op, struct err *e)
{
	return pve_run_in_turn(j->b, op,
		&(struct pve_vm_call){.vmid = vm->vmid,
			.seconds = TURN_SECONDS,
			.method = "POST",
			.path = "snapshot",
			.params = json_pack("{s:s, s:b, s:s}", "snapname", j->name, "vmstate", 1,
				"description", j->text),
			.flags = PVE_PATIENT,
			.once = "qmsnapshot"},
		e);
}

static int take(struct job *j, struct pve_vm *vm, const struct op *op, struct err *e)
{
	char path[sizeof(j->name) + sizeof("snapshot/")];
	struct pve_vm_call drop = {.vmid = vm->vmid,
		.seconds = TURN_SECONDS,
		.method = "DELETE",
		.path = path,
		.once = "qmdelsnapshot"};

	op_progress(op, 0, 0, "snapshot of %s", vm->spec->name);
	if (take_new(j, vm, op, e) == 0)
		return 0;
	/* A second snapshot of the same name replaces the first. */
	snprintf(path, sizeof(path), "snapshot/%s", j->name);
	if (!pve_says_name_taken(e) || pve_run_in_turn(j->b, op, &drop, e) < 0 ||
		take_new(j, vm, op, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	return 0;
}

/* The drive for large files is kept empty: a disc would be part of the snapshot, and would be
 * gone when that is restored. */
static int take_one(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct job *j = arg;
	struct pve_vm *vm = &j->b->vms[i];
	struct guest *g = pve_vm_guest(vm);
	int rc;

	if (g && pve_guest_hold(g, op, e) < 0)
		return -1;
	rc = take(j, vm, op, e);
	if (g)
		pve_guest_release(g);
	return rc;
}

int pve_snapshot(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e)
{
	struct job j = {.b = (struct pve_sandbox *)sandbox, .text = name};

	pve_snapshot_name(name, j.name);
	return parallel_run(op, PARALLEL_MAX, j.b->n_vms, take_one, &j, e);
}

int pve_snapshot_vm(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	const char *name, struct err *e)
{
	struct job j = {.b = (struct pve_sandbox *)sandbox, .text = name};

	pve_snapshot_name(name, j.name);
	return take_one(&j, vm, op, e);
}

/* The server may keep the VM locked for a while after the task of the rollback has ended. */
static int wait_unlocked(struct pve_vm *vm, const struct op *op, struct err *e)
{
	struct pve_sandbox *b = vm->sandbox;

	for (int i = 0; i < LOCK_TRIES; i++) {
		auto_json json_t *status = NULL;

		if (pve_do(b->api, op, "GET", NULL, PVE_STUBBORN, &status, e,
			    "/nodes/%s/qemu/%u/status/current", b->inst->node, vm->vmid) < 0)
			return -1;
		if (!json_object_get(status, "lock"))
			return 0;
		op_progress(op, 0, 0, "waiting until the server unlocks %s", vm->spec->name);
		if (op_pause(op, LOCK_PAUSE, e) < 0)
			return -1;
	}
	return err_set(e, ERR_BACKEND, "it stays locked");
}

static int restore_one(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct job *j = arg;
	struct pve_vm *vm = &j->b->vms[i];
	char path[sizeof(j->name) + sizeof("snapshot//rollback")];

	op_progress(op, 0, 0, "taking %s back", vm->spec->name);
	if (vm->guest)
		pve_guest_forget(vm->guest);
	snprintf(path, sizeof(path), "snapshot/%s/rollback", j->name);
	if (pve_switch_on(j->b, op, vm->vmid, path, "qmrollback", e) < 0 ||
		wait_unlocked(vm, op, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	if (vm->guest)
		pve_guest_forget(vm->guest);
	pve_vm_revive(vm);
	return 0;
}

static int check_there(const struct job *j, unsigned vm, const struct op *op, struct err *e)
{
	auto_json json_t *list = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(j->b->api, op, "GET", NULL, 0, &list, e, "/nodes/%s/qemu/%u/snapshot",
		    j->b->inst->node, j->b->vms[vm].vmid) < 0)
		return -1;
	json_array_foreach(list, i, one) {
		const char *text = json_string_value(json_object_get(one, "name"));

		if (text && strcmp(text, j->name) == 0)
			return 0;
	}
	return err_set(
		e, ERR_NOT_FOUND, "VM %s has no snapshot %s", j->b->vms[vm].spec->name, j->text);
}

int pve_restore(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e)
{
	struct job j = {.b = (struct pve_sandbox *)sandbox, .text = name};

	pve_snapshot_name(name, j.name);
	/* A snapshot that only some of the VMs have restores none of them. */
	for (unsigned i = 0; i < j.b->n_vms; i++)
		if (check_there(&j, i, op, e) < 0)
			return -1;
	return parallel_run(op, PARALLEL_MAX, j.b->n_vms, restore_one, &j, e);
}

int pve_restore_vm(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	const char *name, struct err *e)
{
	struct job j = {.b = (struct pve_sandbox *)sandbox, .text = name};

	pve_snapshot_name(name, j.name);
	return check_there(&j, vm, op, e) < 0 ? -1 : restore_one(&j, vm, op, e);
}

/* ---- listing ---- */

/* A name that the server does not allow is there as a hash, with the name as its description. */
static const char *name_of(const json_t *snapshot)
{
	const char *name = json_string_value(json_object_get(snapshot, "name"));
	const char *text = json_string_value(json_object_get(snapshot, "description"));
	char hashed[sizeof(((struct job *)NULL)->name)];
	char line[256];

	if (!name || strcmp(name, "current") == 0)
		return NULL;
	if (!text)
		return name;
	/* The server ends a description with a line break. */
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	pve_snapshot_name(line, hashed);
	return strcmp(hashed, name) == 0 && strlen(line) == strlen(text) ? text : name;
}

/* Enters the snapshots of a VM; one that several VMs have is as old as the oldest of them. */
static void enter(json_t *all, const json_t *list, const char *vm)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one) {
		const char *name = name_of(one);
		json_int_t at = json_integer_value(json_object_get(one, "snaptime")) * 1000000;
		json_t *known;

		if (!name)
			continue;
		known = json_object_get(all, name);
		if (!known) {
			known = json_pack("{s:s, s:I, s:n, s:[]}", "name", name, "created_us", at,
				"size", "vms");
			json_object_set_new(all, name, known);
		}
		if (at < json_integer_value(json_object_get(known, "created_us")))
			json_object_set_new(known, "created_us", json_integer(at));
		json_array_append_new(json_object_get(known, "vms"), json_string(vm));
	}
}

int pve_snapshots(struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e)
{
	struct pve_sandbox *b = (struct pve_sandbox *)sandbox;
	auto_json json_t *all = json_object(), *found = json_array();
	const char *name;
	json_t *one;

	for (size_t i = 0; i < b->n_vms; i++) {
		auto_json json_t *list = NULL;

		if (pve_do(b->api, op, "GET", NULL, 0, &list, e, "/nodes/%s/qemu/%u/snapshot",
			    b->inst->node, b->vms[i].vmid) < 0)
			return err_wrap(e, "VM %s", b->vms[i].spec->name);
		enter(all, list, b->vms[i].spec->name);
	}
	json_object_foreach(all, name, one)
		json_array_append(found, one);
	*ret = json_incref(found);
	return 0;
}
