#include "driver/proxmox/vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/health.h"
#include "driver/proxmox/api/task.h"
#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/network/firewall.h"
#include "driver/proxmox/network/net.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/site/node.h"
#include "driver/proxmox/vm/address.h"
#include "driver/proxmox/vm/id.h"
#include "driver/proxmox/vm/seed.h"
#include "driver/proxmox/vm/start.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"

#define CLONE_TURN_SECONDS 20.0

/* ---- cloning ---- */

static int describe(const struct pve_vm *vm, char **ret, struct err *e)
{
	return str_printf(ret, e, "VM %s of moat sandbox %s; it is removed with it. %s",
		vm->spec->name, vm->sandbox->id, vm->sandbox->stamp);
}

static int clone_as(struct pve_vm *vm, unsigned vmid, bool full, const struct op *op, struct err *e)
{
	struct pve_sandbox *b = vm->sandbox;
	auto_free char *text = NULL;
	char name[64];
	json_t *params;

	if (describe(vm, &text, e) < 0)
		return -1;
	pve_dns_name(vm->spec->name, name);
	params = json_pack("{s:i, s:s, s:s, s:b}", "newid", (int)vmid, "name", name, "description",
		text, "full", full);
	if (params && full)
		json_object_set_new(params, "storage", json_string(b->inst->image_storage));
	/* Another client may be changing the template at the moment. That passes, and nothing
	 * was made. */
	return pve_run_in_turn(b, op,
		&(struct pve_vm_call){.vmid = vm->template_id,
			.seconds = CLONE_TURN_SECONDS,
			.method = "POST",
			.path = "clone",
			.params = params,
			.flags = PVE_PATIENT},
		e);
}

static int clone_with_id(void *arg, unsigned vmid, const struct op *op, struct err *e)
{
	struct pve_vm *vm = arg;

	if (clone_as(vm, vmid, false, op, e) == 0)
		return 0;
	/* A full clone copies the disk, for storages that cannot share a template's. */
	if (!pve_says_no_linked_clone(e))
		return -1;
	return clone_as(vm, vmid, true, op, e);
}

int pve_vm_clone(struct pve_vm *vm, const struct op *op, struct err *e)
{
	op_progress(op, 0, 0, "cloning %s", vm->spec->name);
	if (pve_vm_new(vm->sandbox, op, "vm", clone_with_id, vm, &vm->vmid, &vm->row, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	return str_printf(&vm->console_url, e, "%s/?console=kvm&%s=1&vmid=%u&node=%s",
		vm->sandbox->site->base_url, vm->spec->vga == SPEC_VGA_NONE ? "xtermjs" : "novnc",
		vm->vmid, vm->sandbox->inst->node);
}

/* ---- configuring ---- */

static int upload_seed(struct pve_vm *vm, const struct op *op, struct err *e)
{
	struct pve_sandbox *b = vm->sandbox;
	auto_free char *label = NULL;

	if (!b->iso_storage)
		return err_set(e, ERR_UNSUPPORTED,
			"cloud_init: no storage of node %s takes ISO images: add \"iso\" to the "
			"content of one",
			b->inst->node);
	if (str_printf(&label, e, "%s-seed", vm->spec->name) < 0)
		return -1;
	return pve_seed_upload(
		b, op, vm->spec, b->iso_storage, label, &vm->seed_volid, &vm->seed_row, e);
}

static int grow_disk(struct pve_vm *vm, const struct op *op, struct err *e)
{
	const char *disk = pve_first_disk(vm->template_config);
	uint64_t want = (uint64_t)vm->spec->disk_gb << 30, have;
	char size[32];

	if (!vm->spec->disk_gb)
		return 0;
	if (!disk)
		return err_set(e, ERR_INVALID, "disk_gb: the template has no disk");
	have = pve_disk_size(json_string_value(json_object_get(vm->template_config, disk)));
	if (have >= want)
		return 0;
	snprintf(size, sizeof(size), "%uG", vm->spec->disk_gb);
	return pve_run(vm->sandbox->api, op, "PUT",
		json_pack("{s:s, s:s}", "disk", disk, "size", size), PVE_TWICE | PVE_PATIENT, e,
		"/nodes/%s/qemu/%u/resize", vm->sandbox->inst->node, vm->vmid);
}

static int put_settings(
	struct pve_vm *vm, const struct op *op, const char *const *bridges, struct err *e)
{
	struct pve_sandbox *b = vm->sandbox;
	auto_free char *text = NULL;
	json_t *params = NULL;
	struct pve_vm_plan plan = {.spec = vm->spec,
		.tags = b->inst->tags,
		.stamp = b->stamp,
		.template_config = vm->template_config,
		.bridges = bridges,
		.image_storage = b->inst->image_storage,
		.seed_volid = vm->seed_volid,
		.firewalled = b->firewalled};

	/* A template that the user made has a CPU model that fits. */
	if (describe(vm, &text, e) < 0 || (vm->spec->source.kind != SPEC_SOURCE_TEMPLATE_TAG &&
						  pve_lacks_kvm(b->inst, op, &plan.no_kvm, e) < 0))
		return -1;
	plan.description = text;
	if (pve_vm_settings(&plan, &params, e) < 0)
		return -1;
	return pve_do(b->api, op, "PUT", params, PVE_TWICE | PVE_PATIENT, NULL, e,
		"/nodes/%s/qemu/%u/config", b->inst->node, vm->vmid);
}

int pve_vm_configure(struct pve_vm *vm, const struct op *op, struct err *e)
{
	const struct vm_spec *spec = vm->spec;
	char *bridges[SPEC_NICS_MAX] = {0};
	int rc = 0;

	if (spec->cloud_init && upload_seed(vm, op, e) < 0)
		return err_wrap(e, "VM %s", spec->name);
	for (size_t i = 0; i < spec->n_nics && rc == 0; i++)
		rc = pve_net_bridge(vm->sandbox, op, &spec->nics[i], &bridges[i], e);
	if (rc == 0)
		rc = put_settings(vm, op, (const char *const *)bridges, e);
	if (rc == 0)
		rc = pve_firewall_make(vm, op, e);
	if (rc == 0)
		rc = grow_disk(vm, op, e);
	for (size_t i = 0; i < spec->n_nics && rc == 0; i++)
		rc = pve_net_reserve(vm->sandbox, op, vm, &spec->nics[i], e);
	for (size_t i = 0; i < spec->n_nics; i++)
		free(bridges[i]);
	return rc < 0 ? err_wrap(e, "VM %s", spec->name) : 0;
}

/* ---- running ---- */

int pve_vm_start(struct pve_vm *vm, const struct op *op, struct err *e)
{
	op_progress(op, 0, 0, "starting %s", vm->spec->name);
	if (pve_start(vm->sandbox, op, vm->vmid, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	return 0;
}

static bool has_agent(const struct vm_spec *spec)
{
	return spec->is_sandbox || spec->healthcheck;
}

static int iso_intent(void *arg, const char *volid, int64_t *ret_row, struct err *e)
{
	return pve_entry_intent(((struct pve_vm *)arg)->sandbox, "volume", volid, ret_row, e);
}

static void iso_gone(void *arg, int64_t row)
{
	struct err ignored;

	/* An entry too many costs one more look when the sandbox is removed. */
	if (journal_gone(((struct pve_vm *)arg)->sandbox->d->env->journal, row, &ignored) < 0)
		return;
}

static int open_guest(struct pve_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	struct pve_sandbox *b = vm->sandbox;
	bool old = true;
	char version[32];
	struct err ignored;

	/* A server that does not say is taken for an old one. */
	if (pve_older_than(b->site, op, PVE_LARGE_CALLS_SINCE, &old, version, &ignored) < 0)
		old = true;
	vm->guest_vm = (struct pve_guest_vm){.api = b->api,
		.node = b->inst->node,
		.name = vm->spec->name,
		.vmid = vm->vmid,
		.windows = vm->windows,
		.runners = &b->d->env->runners,
		.serial1 = !vm->windows,
		.large_calls = !old,
		.iso_storage = b->iso_storage,
		.cdrom = pve_disc_drive(vm->spec, vm->template_config),
		.stamp = b->stamp,
		.scratch_dir = b->d->env->paths->state,
		.iso_intent = iso_intent,
		.iso_gone = iso_gone,
		.arg = vm};
	return pve_guest_open(&vm->guest_vm, op, ret, e);
}

struct guest *pve_vm_guest(struct pve_vm *vm)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	return vm->guest;
}

int pve_vm_guest_take(struct pve_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	auto_turn struct turn *held = NULL;
	struct guest *g = pve_vm_guest(vm);

	if (!has_agent(vm->spec))
		return err_set(e, ERR_UNSUPPORTED, "VM %s has no guest agent: is_sandbox is false",
			vm->spec->name);
	if (!g) {
		if (turn_take(&vm->opening, op, e) < 0)
			return -1;
		held = &vm->opening;
		g = pve_vm_guest(vm); /* another thread may have opened it while we waited */
	}
	if (!g) {
		if (open_guest(vm, op, &g, e) < 0)
			return err_wrap(e, "VM %s", vm->spec->name);
		auto_unlock struct lock *mu = lock_take(&vm->mu);
		vm->guest = g;
		vm->state = VM_RUNNING;
	}
	*ret = g;
	return 0;
}

static int wait_until_well(struct pve_vm *vm, struct guest *g, const struct op *op, struct err *e)
{
	struct health h;
	int rc;

	health_begin(&h, vm->spec->name, vm->spec->healthcheck, vm->spec->user);
	do
		rc = health_ask(&h, g, op, e);
	while (rc == 0);
	return rc < 0 ? -1 : 0;
}

int pve_vm_wait_ready(struct pve_vm *vm, const struct op *op, struct err *e)
{
	struct op boot = op_within(op, vm->sandbox->d->env->boot_timeout);
	struct guest *g;

	if (!has_agent(vm->spec))
		return 0;
	op_progress(op, 0, 0, "waiting for %s", vm->spec->name);
	if (pve_vm_guest_take(vm, &boot, &g, e) < 0) {
		if (e->kind == ERR_TIMEOUT && op_check(op, e) == 0)
			err_set(e, ERR_TIMEOUT,
				"the guest agent of VM %s did not answer within %g s: is "
				"qemu-guest-agent installed in it?",
				vm->spec->name, vm->sandbox->d->env->boot_timeout);
		pve_vm_explain(vm, e);
		return -1;
	}
	if (pve_addresses_await(vm, op, e) < 0)
		return -1;
	return vm->spec->healthcheck ? wait_until_well(vm, g, op, e) : 0;
}

void pve_vm_explain(struct pve_vm *vm, struct err *e)
{
	struct op op = op_for_cleanup(10);
	auto_json json_t *status = NULL;
	const char *text;
	struct err ignored;

	if (e->kind != ERR_UNAVAILABLE && e->kind != ERR_TIMEOUT && e->kind != ERR_BACKEND)
		return;
	if (pve_do(vm->sandbox->api, &op, "GET", NULL, 0, &status, &ignored,
		    "/nodes/%s/qemu/%u/status/current", vm->sandbox->inst->node, vm->vmid) < 0) {
		if (ignored.kind == ERR_NOT_FOUND)
			err_set(e, ERR_UNAVAILABLE, "VM %s (%u) is gone from the server",
				vm->spec->name, vm->vmid);
		return;
	}
	text = json_string_value(json_object_get(status, "status"));
	if (!text || strcmp(text, "stopped") != 0)
		return;
	err_set(e, ERR_UNAVAILABLE, "VM %s (%u) is not running any more", vm->spec->name, vm->vmid);
	auto_unlock struct lock *held = lock_take(&vm->mu);
	vm->state = VM_DEAD;
	vm->death = *e;
}

void pve_vm_revive(struct pve_vm *vm)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	if (vm->state == VM_DEAD)
		vm->state = VM_RUNNING;
}
