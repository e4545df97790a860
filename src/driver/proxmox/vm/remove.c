/*
 * A VM is removed only if it carries the sandbox's stamp: the number may belong to another client's
 * VM by now, or may never have been ours.
 */
#include "driver/proxmox/vm/remove.h"

#include <string.h>

#include "driver/proxmox/api/task.h"
#include "driver/proxmox/api/upload.h"
#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/spec/args.h"
#include "driver/proxmox/vm/id.h"
#include "util/json.h"
#include "util/str.h"

#define TRY_AGAIN      0.2
#define TRY_AGAIN_MOST 5.0
#define COMING_LOOK    0.5 /* seconds between looks for a VM that may still be in the making */
enum { COMING_LOOKS = 4, FAILED_TRIES = 5 };

enum look { LOOK_GONE, LOOK_COMING, LOOK_OURS, LOOK_NOT_OURS };

static bool is_set(const json_t *value)
{
	const char *text = json_string_value(value);

	return json_is_true(value) || json_integer_value(value) != 0 ||
	       (text && strcmp(text, "1") == 0);
}

static bool carries(const json_t *config, const char *stamp)
{
	const char *tags = json_string_value(json_object_get(config, "tags"));
	const char *text = json_string_value(json_object_get(config, "description"));

	return pve_has_tag(tags, stamp) || (text && strstr(text, stamp));
}

/* The tasks that may be making the VM: those that make VMs and were there at one of the first
 * looks. One that begins later makes another VM. */
struct makers {
	json_t *tasks; /* object of their names */
	unsigned looks, quiet;
};

static void makers_free(struct makers *m)
{
	json_decref(m->tasks);
}
#define auto_makers __attribute__((cleanup(makers_free)))

/* Whether the VM will not change any more: at several looks none of its makers ran. */
static int have_ended(struct makers *m, struct pve_api *api, const struct op *op, const char *node,
	bool *ret, struct err *e)
{
	auto_json json_t *tasks = NULL;
	bool runs = false;
	const json_t *t;
	size_t i;

	if (!m->tasks)
		m->tasks = json_object();
	if (pve_task_list(api, op, node, &tasks, e) < 0)
		return -1;
	json_array_foreach(tasks, i, t) {
		const char *upid = json_string_value(json_object_get(t, "upid"));

		if (!upid || !(pve_task_runs(t, "qmclone") || pve_task_runs(t, "qmcreate")))
			continue;
		if (m->looks < COMING_LOOKS)
			json_object_set_new(m->tasks, upid, json_true());
		runs |= json_object_get(m->tasks, upid) != NULL;
	}
	m->looks++;
	m->quiet += !runs;
	*ret = m->quiet > COMING_LOOKS;
	return 0;
}

struct seen {
	enum look what;
	bool is_protected, locked;
	char lock[16]; /* what it is locked for: "clone" */
};

static int look_at(struct pve_api *api, const struct op *op, const struct pve_removal *vm,
	struct seen *ret, struct err *e)
{
	auto_json json_t *config = NULL;
	const char *lock;

	*ret = (struct seen){.what = LOOK_GONE};
	if (pve_do(api, op, "GET", NULL, PVE_STUBBORN, &config, e, "/nodes/%s/qemu/%u/config",
		    vm->node, vm->vmid) < 0)
		return e->kind == ERR_NOT_FOUND ? 0 : -1;
	ret->is_protected = is_set(json_object_get(config, "protection"));
	lock = json_string_value(json_object_get(config, "lock"));
	ret->locked = lock != NULL;
	str_escape(lock ? lock : "", lock ? strlen(lock) : 0, ret->lock, sizeof(ret->lock));
	if (carries(config, vm->stamp))
		ret->what = LOOK_OURS;
	else if (lock && (strcmp(lock, "clone") == 0 || strcmp(lock, "create") == 0))
		ret->what = LOOK_COMING; /* a clone gets its stamp when it is complete */
	else
		ret->what = LOOK_NOT_OURS;
	if (ret->what == LOOK_OURS && vm->keep_template &&
		json_integer_value(json_object_get(config, "template")))
		ret->what = LOOK_NOT_OURS; /* the template is finished, and is to stay */
	return 0;
}

/* *left: the server has removed the VM, but perhaps not all of its disks. */
static int stop_and_delete(struct pve_api *api, const struct op *op, const struct pve_removal *vm,
	bool is_protected, bool *left, struct err *e)
{
	auto_json json_t *upid = NULL;

	/* A clone has its template's protection until it is configured. */
	if (is_protected &&
		pve_do(api, op, "PUT", json_pack("{s:i}", "protection", 0), PVE_STUBBORN, NULL, e,
			"/nodes/%s/qemu/%u/config", vm->node, vm->vmid) < 0)
		return -1;
	if (pve_run(api, op, "POST", NULL, PVE_STUBBORN, e, "/nodes/%s/qemu/%u/status/stop",
		    vm->node, vm->vmid) < 0)
		return -1;
	if (pve_do(api, op, "DELETE",
		    json_pack("{s:i, s:i}", "purge", 1, "destroy-unreferenced-disks", 1),
		    PVE_STUBBORN, &upid, e, "/nodes/%s/qemu/%u", vm->node, vm->vmid) < 0)
		return -1;
	return pve_task_wait(api, op, upid, left, e);
}

/* Whether a VM has the number again: another client may have taken it at once, and then the
 * disks are that client's. */
static int is_taken(
	struct pve_api *api, const struct op *op, unsigned vmid, bool *ret, struct err *e)
{
	auto_json json_t *vms = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(api, op, "GET", json_pack("{s:s}", "type", "vm"), 0, &vms, e,
		    "/cluster/resources") < 0)
		return -1;
	*ret = false;
	json_array_foreach(vms, i, one) {
		*ret |= json_integer_value(json_object_get(one, "vmid")) == vmid;
	}
	return 0;
}

static int drop_disks_on(struct pve_api *api, const struct op *op, const struct pve_removal *vm,
	const char *storage, struct err *e)
{
	auto_json json_t *disks = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(api, op, "GET",
		    json_pack("{s:s, s:i}", "content", "images", "vmid", (int)vm->vmid), 0, &disks,
		    e, "/nodes/%s/storage/%s/content", vm->node, storage) < 0)
		return -1;
	json_array_foreach(disks, i, one) {
		const char *volid = json_string_value(json_object_get(one, "volid"));

		if (volid && json_integer_value(json_object_get(one, "vmid")) == vm->vmid &&
			pve_volume_delete(api, op, vm->node, volid, e) < 0)
			return -1;
	}
	return 0;
}

/* Removes disks that are left: the VM is gone, but the server could not remove all its disks,
 * and only warned. */
static int drop_disks(
	struct pve_api *api, const struct op *op, const struct pve_removal *vm, struct err *e)
{
	auto_json json_t *storages = NULL;
	const json_t *one;
	bool taken;
	size_t i;

	if (is_taken(api, op, vm->vmid, &taken, e) < 0)
		return -1;
	if (taken)
		return 0;
	if (pve_do(api, op, "GET", json_pack("{s:s, s:i}", "content", "images", "enabled", 1), 0,
		    &storages, e, "/nodes/%s/storage", vm->node) < 0)
		return -1;
	json_array_foreach(storages, i, one) {
		const char *name = json_string_value(json_object_get(one, "storage"));

		if (name && drop_disks_on(api, op, vm, name, e) < 0)
			return -1;
	}
	return 0;
}

/* Called when there is no VM. 1: there will be none; 0: the server may still be making it, look
 * again. */
static int nothing_there(struct pve_api *api, const struct op *op, const struct pve_removal *vm,
	struct makers *makers, struct err *e)
{
	bool over;

	if (!vm->maybe_coming)
		return 1;
	if (have_ended(makers, api, op, vm->node, &over, e) < 0)
		return -1;
	return over ? 1 : op_pause(op, COMING_LOOK, e);
}

/* Called when there is a VM that is not complete. 0: the server is still making it, look again. A
 * task that was killed leaves its VM half made and locked. Without a stamp it may be anybody's, so
 * moat leaves it alone. */
static int half_made(struct pve_api *api, const struct op *op, const struct pve_removal *vm,
	const char *lock, struct makers *makers, struct err *e)
{
	bool over;

	if (have_ended(makers, api, op, vm->node, &over, e) < 0)
		return -1;
	if (over)
		return err_set(e, ERR_BACKEND,
			"the server has abandoned VM %u half made: it is locked (%s), and no task "
			"works on it; if nobody needs it, on node %s: qm unlock %u && qm destroy "
			"%u",
			vm->vmid, lock, vm->node, vm->vmid, vm->vmid);
	return op_pause(op, COMING_LOOK, e);
}

int pve_vm_await(
	struct pve_api *api, const struct op *op, const struct pve_removal *vm, struct err *e)
{
	auto_makers struct makers makers = {0};

	for (;;) {
		struct seen seen;
		int rc;

		if (look_at(api, op, vm, &seen, e) < 0)
			return -1;
		if (seen.what == LOOK_NOT_OURS)
			return 0;
		if (seen.what == LOOK_OURS && !seen.locked)
			return 1;
		if (seen.what != LOOK_GONE) {
			if (half_made(api, op, vm, seen.lock, &makers, e) < 0)
				return -1;
			continue;
		}
		rc = nothing_there(api, op, vm, &makers, e);
		if (rc != 0)
			return rc < 0 ? -1 : 0;
	}
}

static int remove_vm(
	struct pve_api *api, const struct op *op, const struct pve_removal *vm, struct err *e)
{
	auto_makers struct makers makers = {0};
	double pause = TRY_AGAIN;
	unsigned failed = 0;
	bool left = false;
	struct err why;

	for (;;) {
		struct seen seen;
		int rc = 0;

		if (look_at(api, op, vm, &seen, e) < 0)
			return err_wrap(e, "VM %u", vm->vmid);
		/* Ours was complete and had its stamp, so this is another one of the same number.
		 */
		if (seen.what == LOOK_NOT_OURS || (seen.what == LOOK_COMING && !vm->maybe_coming))
			return 0;
		if (seen.what == LOOK_GONE) {
			rc = nothing_there(api, op, vm, &makers, e);
			if (rc != 0)
				return rc < 0 ? -1 : 0;
			continue;
		}
		if (seen.what == LOOK_COMING) {
			op_progress(op, 0, 0, "VM %u is still being made", vm->vmid);
			if (half_made(api, op, vm, seen.lock, &makers, e) < 0)
				return -1;
			continue;
		}
		rc = stop_and_delete(api, op, vm, seen.is_protected, &left, e);
		if (rc == 0)
			return left ? drop_disks(api, op, vm, e) : 0;
		/* The VM may be locked by a task that still runs, or its storage may be busy:
		 * that passes, so it is tried again. Not so if the server does not answer, or
		 * forbids it; and anything else only a few times. */
		if (e->kind == ERR_UNAVAILABLE || e->kind == ERR_PERMISSION ||
			(!pve_says_passing(e) && ++failed == FAILED_TRIES))
			return err_wrap(e, "VM %u", vm->vmid);
		why = *e;
		op_progress(op, 0, 0, "VM %u: %.200s", vm->vmid, why.msg);
		if (op_pause(op, pause, e) < 0) {
			*e = why;
			return err_wrap(e, "VM %u would not go", vm->vmid);
		}
		pause = pause * 1.5 < TRY_AGAIN_MOST ? pause * 1.5 : TRY_AGAIN_MOST;
	}
}

int pve_vm_remove(
	struct pve_site *site, const struct op *op, const struct pve_removal *vm, struct err *e)
{
	/* No new VM may get this number as long as disks of the old VM may be there. */
	bool kept = pve_id_keep(site, vm->vmid);
	int rc = remove_vm(pve_site_api(site), op, vm, e);

	if (kept)
		pve_id_release(site, vm->vmid);
	return rc;
}
