/* The Proxmox VE driver: sandboxes as VMs and networks on servers. How it works: see site/state.h.
 */
#include "driver/proxmox/api/conn.h"
#include "driver/proxmox/cleanup/cleaner.h"
#include "driver/proxmox/cleanup/reclaim.h"
#include "driver/proxmox/cleanup/rows.h"
#include "driver/proxmox/cleanup/sweep.h"
#include "driver/proxmox/doctor.h"
#include "driver/proxmox/images/import.h"
#include "driver/proxmox/images/source.h"
#include "driver/proxmox/images/templates.h"
#include "driver/proxmox/network/claims.h"
#include "driver/proxmox/network/firewall.h"
#include "driver/proxmox/network/net.h"
#include "driver/proxmox/network/show.h"
#include "driver/proxmox/pool.h"
#include "driver/proxmox/site/access.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/site/node.h"
#include "driver/proxmox/site/sandbox.h"
#include "driver/proxmox/spec/check.h"
#include "driver/proxmox/vm/snapshot.h"
#include "driver/proxmox/vm/vm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/thread/parallel.h"
#include "util/system/log.h"

#define REMOVAL_SECONDS 300.0

static void close_driver(struct driver *base)
{
	struct pve_driver *d = (struct pve_driver *)base;

	if (d)
		pve_cleaner_stop(d);
	pve_driver_free(d);
}

static void hurry(struct driver *base)
{
	struct pve_driver *d = (struct pve_driver *)base;
	auto_unlock struct lock *held = lock_take(&d->mu);

	for (struct pve_site *s = d->sites; s; s = s->next)
		pve_site_hurry(s);
}

static int any_row(void *arg, const struct journal_entry *t, struct err *e)
{
	(void)e;
	*(bool *)arg |= strcmp(t->driver, PVE_NAME) == 0;
	return 0;
}

static int open_driver(const struct driver_env *env, struct driver **ret, struct err *e)
{
	struct pve_driver *d;
	bool leftovers = false;

	if (pve_global_init(e) < 0 || pve_driver_new(env, &d, e) < 0)
		return -1;
	d->base.ops = &driver_proxmox;
	pve_import_sweep(env);
	/* Servers may be slow or away, so what an earlier daemon left is removed in the
	 * background. */
	if (journal_each_entry(env->journal, NULL, any_row, &leftovers, e) < 0 ||
		(leftovers && pve_cleaner_start(d, e) < 0)) {
		pve_driver_free(d);
		return -1;
	}
	*ret = &d->base;
	return 0;
}

static int validate(struct driver *base, const struct sandbox_spec *spec, struct err *e)
{
	(void)base;
	return pve_check_spec(spec, e);
}

/* ---- making ---- */

struct making {
	struct pve_sandbox *b;
	const json_t *vms; /* the VMs on the node, as it listed them */
	size_t *order;
};

static int source_and_clone(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct making *m = arg;

	return pve_source_find(&m->b->vms[i], op, m->vms, e) < 0
		       ? -1
		       : pve_vm_clone(&m->b->vms[i], op, e);
}

/* Networks are made while VMs are cloned: both take seconds, and neither needs the other. */
static int net_or_vm(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct making *m = arg;

	return i == 0 ? pve_net_make(m->b, op, e) : source_and_clone(m, i - 1, op, e);
}

static bool has_static(const struct vm_spec *vm)
{
	for (size_t i = 0; i < vm->n_nics; i++)
		if (vm->nics[i].ipv4)
			return true;
	return false;
}

static int configure_other(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct making *m = arg;

	return has_static(m->b->vms[i].spec) ? 0 : pve_vm_configure(&m->b->vms[i], op, e);
}

/* The server gives each NIC the next free address, so VMs whose spec reserves one are configured
 * first. */
static int configure_all(struct making *m, const struct op *op, struct err *e)
{
	for (size_t i = 0; i < m->b->n_vms; i++)
		if (has_static(m->b->vms[i].spec) && pve_vm_configure(&m->b->vms[i], op, e) < 0)
			return -1;
	return parallel_run(op, PARALLEL_MAX, m->b->n_vms, configure_other, m, e);
}

static int start_one(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct making *m = arg;
	struct pve_sandbox *b = m->b;
	size_t at = m->order[i];
	uint64_t one = 1;

	for (size_t k = 0; k < b->n_vms; k++)
		if (k != at && spec_waits_for(b->spec, at, k) &&
			op_wait_fd(op, b->vms[k].ready_fd, POLLIN, e) < 0)
			return -1;
	if (pve_vm_start(&b->vms[at], op, e) < 0)
		return -1;
	if ((b->vms[at].spec->is_sandbox || spec_is_waited_for(b->spec, at)) &&
		pve_vm_wait_ready(&b->vms[at], op, e) < 0)
		return -1;
	if (write(b->vms[at].ready_fd, &one, sizeof(one)) < 0)
		return err_sys(e, errno, "eventfd");
	return 0;
}

static int fill_sandbox(
	struct pve_sandbox *b, const struct op *op, const json_t *vms, struct err *e)
{
	auto_free size_t *order = calloc(b->n_vms, sizeof(size_t));
	auto_pve_storages struct pve_storages st = {0};
	struct making m = {.b = b, .vms = vms, .order = order};

	if (!order)
		return err_oom(e);
	spec_start_order(b->spec, order);
	if (pve_access_keep(b->d, b->site, e) < 0 || pve_storages_find(b->inst, op, &st, e) < 0)
		return -1;
	b->iso_storage = take_ptr(&st.iso);
	if (pve_firewall_find(b, op, e) < 0)
		return -1;
	if (parallel_run(op, PARALLEL_MAX, b->n_vms + 1, net_or_vm, &m, e) < 0 ||
		configure_all(&m, op, e) < 0)
		return -1;
	if (parallel_run(op, PARALLEL_MAX, b->n_vms, start_one, &m, e) < 0)
		return -1;
	pve_pool_started(b);
	return 0;
}

/* ---- removing ---- */

struct removing {
	struct pve_driver *d;
	struct pve_rows rows;
};

static int remove_row(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct removing *r = arg;

	if (pve_reclaim(&r->d->base, op, &r->rows.v[i], e) < 0)
		return -1;
	return journal_gone(r->d->env->journal, r->rows.v[i].row, e);
}

static int remove_some(struct pve_sandbox *b, bool vms, const struct op *op, struct err *e)
{
	struct removing r = {.d = b->d};
	int rc = pve_rows_read(b->d->env->journal, b->id, vms, &r.rows, e);

	if (rc == 0)
		rc = parallel_run(op, PARALLEL_MAX, r.rows.n, remove_row, &r, e);
	pve_rows_free(&r.rows);
	return rc;
}

static void leave_site(struct pve_sandbox *b)
{
	if (b->entered)
		pve_site_leave(b->site);
	b->entered = false;
}

/* VMs first; then the networks and files that they used. */
static int remove_entries(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	int rc = remove_some(b, true, op, e);

	leave_site(b);
	return rc < 0 ? -1 : remove_some(b, false, op, e);
}

static int remove_sandbox(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	struct pve_driver *d = b->d;
	const struct pve_site *site = b->site;
	struct err ignored;
	int rc = 0;

	for (size_t i = 0; i < b->n_vms; i++) {
		guest_free(b->vms[i].guest);
		b->vms[i].guest = NULL;
	}
	if (b->site)
		rc = remove_entries(b, op, e);
	if (rc < 0)
		pve_inst_dirty(d, b->inst, e);
	else if (journal_sandbox_remove(d->env->journal, b->id, e) < 0)
		rc = -1;
	pve_claims_forget(b);
	pve_pool_leave(b);
	pve_sandbox_leave(b);
	pve_sandbox_free(b);
	if (rc < 0)
		pve_cleaner_wake(d);
	else if (site && pve_access_drop(d, site, &ignored) < 0)
		log_err(op, LOG_WARN, &ignored, "logins");
	return rc;
}

static int create(struct driver *base, const struct op *op, const struct sandbox_request *req,
	struct driver_sandbox **ret, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	struct op cleanup = op_for_cleanup(REMOVAL_SECONDS);
	auto_free struct pve_inst **insts = NULL;
	auto_json json_t *vms = NULL;
	struct pve_sandbox *b;
	struct err undo;

	if (pve_access_read(d, req->access, &insts, e) < 0 || pve_sandbox_new(d, req, &b, e) < 0)
		return -1;
	pve_sandbox_enter(b);
	if (pve_pool_enter(b, op, insts, &vms, e) < 0)
		goto fail;
	b->api = pve_site_api(b->site);
	if (fill_sandbox(b, op, vms, e) < 0) {
		if (e->kind == ERR_UNAVAILABLE && e->sys == PVE_NOT_SENT)
			pve_inst_failed(d, b->inst, e);
		err_wrap(e, "server %s", b->inst->id);
		goto fail;
	}
	*ret = &b->base;
	return 0;
fail:
	cleanup = op_for_cleanup(REMOVAL_SECONDS);
	if (remove_sandbox(b, &cleanup, &undo) < 0)
		log_err(op, LOG_ERROR, &undo, "%s: cannot remove all that was made yet", req->id);
	return -1;
}

static int destroy(
	struct driver *base, const struct op *op, struct driver_sandbox *sandbox, struct err *e)
{
	(void)base;
	return remove_sandbox((struct pve_sandbox *)sandbox, op, e);
}

/* ---- using ---- */

static struct pve_vm *vm_of(struct driver_sandbox *sandbox, unsigned vm)
{
	return &((struct pve_sandbox *)sandbox)->vms[vm];
}

static int take_guest(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	struct guest **ret, struct err *e)
{
	struct op boot = op_within(op, vm_of(sandbox, vm)->sandbox->d->env->boot_timeout);

	return pve_vm_guest_take(vm_of(sandbox, vm), &boot, ret, e);
}

static void give_guest(struct driver_sandbox *sandbox, unsigned vm, struct guest *g)
{
	(void)sandbox;
	(void)vm;
	(void)g; /* it lives as long as the sandbox */
}

static void explain(struct driver_sandbox *sandbox, unsigned vm, struct err *e)
{
	pve_vm_explain(vm_of(sandbox, vm), e);
}

static int net_show(
	struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e)
{
	return pve_net_show((struct pve_sandbox *)sandbox, op, ret, e);
}

static const char *source_name(const struct source_spec *s)
{
	return s->built_in ? s->built_in : s->ova ? s->ova : s->image ? s->image : s->template_tag;
}

static void describe(struct driver_sandbox *sandbox, unsigned i, struct vm_info *ret)
{
	struct pve_vm *vm = vm_of(sandbox, i);
	auto_unlock struct lock *held = lock_take(&vm->mu);

	*ret = (struct vm_info){.state = vm->state,
		.image = source_name(&vm->spec->source),
		.user = spec_user(vm->spec->user, vm->windows),
		.accelerator = "",
		.link = vm->guest ? guest_link_name(vm->guest) : "",
		.console = vm->console_url,
		.server = vm->sandbox->inst->id,
		.zone = vm->sandbox->zone[0] ? vm->sandbox->zone : NULL,
		.vmid = vm->vmid};
	if (vm->state == VM_STARTING && !vm->spec->is_sandbox)
		ret->state = VM_RUNNING;
	if (vm->state == VM_DEAD)
		snprintf(ret->error, sizeof(ret->error), "%.500s", vm->death.msg);
}

static int log_path(
	struct driver_sandbox *sandbox, unsigned vm, enum vm_log which, char **ret, struct err *e)
{
	(void)which;
	(void)ret;
	return err_set(e, ERR_UNSUPPORTED, "the server keeps no console log; its console is at %s",
		vm_of(sandbox, vm)->console_url);
}

static int reclaim_op(struct driver *base, const struct op *op, const struct journal_entry *t,
	const json_t *access, struct err *e)
{
	(void)access; /* the daemon has entered the servers before, and they are remembered */
	return pve_reclaim(base, op, t, e);
}

const struct driver_ops driver_proxmox = {
	.name = PVE_NAME,
	.remote = true,
	.removal_seconds = REMOVAL_SECONDS,
	.open = open_driver,
	.close = close_driver,
	.hurry = hurry,
	.doctor = pve_doctor,
	.validate = validate,
	.create = create,
	.destroy = destroy,
	.reclaim = reclaim_op,
	.sweep = pve_sweep,
	.guest_take = take_guest,
	.guest_give = give_guest,
	.explain = explain,
	.describe = describe,
	.log_path = log_path,
	.net_show = net_show,
	.snapshot = pve_snapshot,
	.snapshots = pve_snapshots,
	.restore = pve_restore,
	.snapshot_vm = pve_snapshot_vm,
	.restore_vm = pve_restore_vm,
	.pool = pve_pool_op,
	.images = pve_images,
};
