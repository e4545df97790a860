/*
 * What we made on servers: journal rows that name it, and its removal. A VM is removed only if it
 * carries the sandbox's stamp, because its number may be somebody else's by now, or may never have
 * been ours.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/pve.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

#define TRY_AGAIN      0.2
#define TRY_AGAIN_MOST 5.0
#define COMING_LOOK    0.5 /* seconds between looks for what may be in the making */
enum { COMING_LOOKS = 4, TASKS_MAX = 1000 };

int pve_thing_intent(
	struct pve_box *b, const char *kind, const char *name, int64_t *ret_row, struct err *e)
{
	auto_json json_t *ref = NULL;
	auto_free char *text = NULL;
	struct journal_thing t = {.sandbox = b->id, .driver = PVE_NAME, .kind = kind};

	if (json_make(&ref, e, "{s:s, s:s, s:s, s:s}", "at", b->site->key, "node", b->inst->node,
		    "stamp", b->stamp, "name", name) < 0 ||
		json_to_str(ref, &text, e) < 0)
		return -1;
	t.ref = text;
	return journal_intent(b->d->env->journal, &t, ret_row, e);
}

bool pve_thing_is_vm(const struct journal_thing *t)
{
	return strcmp(t->kind, "vm") == 0 || strcmp(t->kind, "template") == 0;
}

bool pve_stamp_find(const struct pve_driver *d, const char *text, char ret_id[32])
{
	char begin[32];
	size_t n = 0;

	snprintf(begin, sizeof(begin), "moat-%s-", d->install);
	text = text ? strstr(text, begin) : NULL;
	if (!text)
		return false;
	for (text += strlen(begin); n < 31 && isxdigit((unsigned char)text[n]); n++)
		ret_id[n] = text[n];
	ret_id[n] = '\0';
	return n > 0;
}

/* ---- what the server is busy with ---- */

static int list_running(
	struct pve_api *api, const struct op *op, const char *node, json_t **ret, struct err *e)
{
	return pve_do(api, op, "GET",
		json_pack("{s:s, s:i}", "source", "active", "limit", TASKS_MAX), PVE_STUBBORN, ret,
		e, "/nodes/%s/tasks", node);
}

static bool is_task(const json_t *t, const char *type)
{
	const char *is = json_string_value(json_object_get(t, "type"));

	/* One that has ended may be in the list for a while. */
	return is && strcmp(is, type) == 0 && !json_object_get(t, "endtime");
}

/* ---- removing a VM ---- */

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

/* Whether the server is making VMs at the moment: the one that is looked for may be among them. */
static int is_making(
	struct pve_api *api, const struct op *op, const char *node, bool *ret, struct err *e)
{
	auto_json json_t *tasks = NULL;
	const json_t *t;
	size_t i;

	*ret = false;
	if (list_running(api, op, node, &tasks, e) < 0)
		return -1;
	json_array_foreach(tasks, i, t)
	{
		*ret |= is_task(t, "qmclone") || is_task(t, "qmcreate");
	}
	return 0;
}

static int look_at(struct pve_api *api, const struct op *op, const struct pve_doomed *vm,
	enum look *ret, bool *ret_protected, struct err *e)
{
	auto_json json_t *config = NULL;
	const char *lock;

	*ret_protected = false;
	if (pve_do(api, op, "GET", NULL, PVE_STUBBORN, &config, e, "/nodes/%s/qemu/%u/config",
		    vm->node, vm->vmid) < 0) {
		*ret = LOOK_GONE;
		return e->kind == ERR_NOT_FOUND ? 0 : -1;
	}
	*ret_protected = is_set(json_object_get(config, "protection"));
	lock = json_string_value(json_object_get(config, "lock"));
	if (carries(config, vm->stamp))
		*ret = LOOK_OURS;
	else if (lock && (strcmp(lock, "clone") == 0 || strcmp(lock, "create") == 0))
		*ret = LOOK_COMING; /* it gets its description when it is complete */
	else
		*ret = LOOK_NOT_OURS;
	if (*ret == LOOK_OURS && vm->keep_template &&
		json_integer_value(json_object_get(config, "template")))
		*ret = LOOK_NOT_OURS; /* it is finished, and is to stay */
	return 0;
}

/* *left: disks may still be there. */
static int stop_and_delete(struct pve_api *api, const struct op *op, const struct pve_doomed *vm,
	bool is_protected, bool *left, struct err *e)
{
	auto_json json_t *upid = NULL;

	/* A clone has that of its template until it is configured. */
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

/* Somebody else may have taken the number at once, and then the disks are theirs. */
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
	json_array_foreach(vms, i, one)
	{
		*ret |= json_integer_value(json_object_get(one, "vmid")) == vmid;
	}
	return 0;
}

static int drop_disks_on(struct pve_api *api, const struct op *op, const struct pve_doomed *vm,
	const char *storage, struct err *e)
{
	auto_json json_t *disks = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(api, op, "GET",
		    json_pack("{s:s, s:i}", "content", "images", "vmid", (int)vm->vmid), 0, &disks,
		    e, "/nodes/%s/storage/%s/content", vm->node, storage) < 0)
		return -1;
	json_array_foreach(disks, i, one)
	{
		const char *volid = json_string_value(json_object_get(one, "volid"));

		if (volid && json_integer_value(json_object_get(one, "vmid")) == vm->vmid &&
			pve_volume_delete(api, op, vm->node, volid, e) < 0)
			return -1;
	}
	return 0;
}

/* The VM is gone, but the server could not remove all its disks and only warned of that. */
static int drop_disks(
	struct pve_api *api, const struct op *op, const struct pve_doomed *vm, struct err *e)
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
	json_array_foreach(storages, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "storage"));

		if (name && drop_disks_on(api, op, vm, name, e) < 0)
			return -1;
	}
	return 0;
}

/* 1: there is nothing to remove (any more); 0: look again; -1 */
static int nothing_there(struct pve_api *api, const struct op *op, const struct pve_doomed *vm,
	unsigned *looks, struct err *e)
{
	bool making = false;

	if (!vm->maybe_coming)
		return 1;
	if (is_making(api, op, vm->node, &making, e) < 0)
		return -1;
	if (!making && ++*looks > COMING_LOOKS)
		return 1;
	return op_pause(op, COMING_LOOK, e);
}

static int remove_vm(
	struct pve_api *api, const struct op *op, const struct pve_doomed *vm, struct err *e)
{
	double pause = TRY_AGAIN;
	unsigned looks = 0;
	bool left = false;
	struct err why;

	for (;;) {
		enum look seen;
		bool is_protected;
		int rc = 0;

		if (look_at(api, op, vm, &seen, &is_protected, e) < 0)
			return err_wrap(e, "VM %u", vm->vmid);
		if (seen == LOOK_NOT_OURS)
			return 0;
		if (seen == LOOK_GONE) {
			rc = nothing_there(api, op, vm, &looks, e);
			if (rc != 0)
				return rc < 0 ? -1 : 0;
			continue;
		}
		if (seen == LOOK_OURS)
			rc = stop_and_delete(api, op, vm, is_protected, &left, e);
		if (seen == LOOK_OURS && rc == 0)
			return left ? drop_disks(api, op, vm, e) : 0;
		/* It is locked by a task that still runs, or the storage is busy: that passes. A
		 * server that does not answer is another matter. */
		if (rc < 0 && (e->kind == ERR_UNAVAILABLE || e->kind == ERR_PERMISSION))
			return err_wrap(e, "VM %u", vm->vmid);
		if (rc < 0)
			why = *e;
		else
			err_set(&why, ERR_BUSY, "it is still being made");
		if (op_pause(op, pause, e) < 0) {
			*e = why;
			return err_wrap(e, "VM %u would not go", vm->vmid);
		}
		pause = pause * 1.5 < TRY_AGAIN_MOST ? pause * 1.5 : TRY_AGAIN_MOST;
	}
}

int pve_vm_remove(
	struct pve_site *site, const struct op *op, const struct pve_doomed *vm, struct err *e)
{
	/* Its disks may be there for longer than the VM: the next one of that number has others. */
	bool kept = pve_id_keep(site, vm->vmid);
	int rc = remove_vm(pve_site_api(site), op, vm, e);

	if (kept)
		pve_id_release(site, vm->vmid);
	return rc;
}

/* A request that makes it may be on its way still: nobody would find a zone without networks later.
 */
static int remove_zone(struct pve_site *site, const struct op *op, const char *zone,
	const struct pve_doomed *of, struct err *e)
{
	int rc = pve_net_remove(site, op, zone, of->stamp, e);

	for (int i = 0; rc == 0 && of->maybe_coming && i < COMING_LOOKS; i++)
		rc = op_pause(op, COMING_LOOK, e) < 0
			     ? -1
			     : pve_net_remove(site, op, zone, of->stamp, e);
	return rc;
}

/* ---- removing a file ---- */

/* The key of a site begins with the user, and goes on with "!" and a token or "@" and the server. A
 * token's tasks are those of "user@realm!token". */
static bool is_by_us(const struct pve_site *site, const json_t *task)
{
	const char *user = json_string_value(json_object_get(task, "user"));
	size_t n = user ? strcspn(user, "!") : 0;

	return n > 0 && strncmp(site->key, user, n) == 0 &&
	       (site->key[n] == '@' || site->key[n] == '!');
}

/*
 * Whether the server may be about to put a file into place. A download is known by the file's
 * name, and is told to stop; one that cannot be stopped ends by itself. What was uploaded is copied
 * by a task that does not say what it copies.
 */
static int is_coming(struct pve_site *site, const struct op *op, const char *node, const char *file,
	bool *ret, struct err *e)
{
	struct pve_api *api = pve_site_api(site);
	auto_json json_t *tasks = NULL;
	const json_t *t;
	size_t i;

	*ret = false;
	if (list_running(api, op, node, &tasks, e) < 0)
		return -1;
	json_array_foreach(tasks, i, t)
	{
		const char *id = json_string_value(json_object_get(t, "id"));
		const char *upid = json_string_value(json_object_get(t, "upid"));
		struct err ignored;

		*ret |= is_task(t, "imgcopy") && is_by_us(site, t);
		if (!is_task(t, "download") || !id || strcmp(id, file) != 0 || !upid)
			continue;
		*ret = true;
		if (pve_do(api, op, "DELETE", NULL, 0, NULL, &ignored, "/nodes/%s/tasks/%s", node,
			    upid) < 0)
			continue;
	}
	return 0;
}

/* volid: "local:import/FILE". Deleting what is not there yet succeeds, and nobody would look for it
 * later. */
static int remove_volume(struct pve_site *site, const struct op *op, const char *volid,
	const struct pve_doomed *of, struct err *e)
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

/* ---- rows ---- */

int pve_reclaim(
	struct driver *base, const struct op *op, const struct journal_thing *t, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	auto_json json_t *ref = NULL;
	const char *at, *node, *stamp, *name;
	struct pve_doomed vm = {.maybe_coming = strcmp(t->state, "intent") == 0};
	struct pve_site *site;

	if (json_parse_object((struct bytes){(const uint8_t *)t->ref, strlen(t->ref)}, &ref, e) <
			0 ||
		json_get(ref, t->kind, e, "{s:s, s:s, s:s, s:s}", "at", &at, "node", &node, "stamp",
			&stamp, "name", &name) < 0 ||
		pve_access_site(d, at, &site, e) < 0)
		return -1;
	vm.node = node;
	vm.stamp = stamp;
	vm.keep_template = strcmp(t->kind, "template") == 0;
	if (pve_thing_is_vm(t)) {
		vm.vmid = (unsigned)strtoul(name, NULL, 10);
		return pve_vm_remove(site, op, &vm, e);
	}
	if (strcmp(t->kind, "zone") == 0)
		return remove_zone(site, op, name, &vm, e);
	if (strcmp(t->kind, "volume") == 0)
		return remove_volume(site, op, name, &vm, e);
	return err_set(e, ERR_INTERNAL, "the proxmox driver knows no \"%s\"", t->kind);
}
