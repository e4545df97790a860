/* The Proxmox VE driver: sandboxes as VMs and networks on servers. How it works: see pve.h. */
#include "driver/pve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/pve-check.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/str.h"

#define REMOVAL_SECONDS 300.0

static void pve_close(struct driver *base)
{
	struct pve_driver *d = (struct pve_driver *)base;

	if (!d)
		return;
	pve_cleaner_stop(d);
	pve_access_free(d);
	if (d->cleaner_fd >= 0)
		close(d->cleaner_fd);
	op_done(&d->cleaner_op);
	turn_done(&d->saving);
	pthread_mutex_destroy(&d->mu);
	free(d->access_path);
	free(d);
}

/* Who we are on servers that others use as well: chosen once for a state directory. */
static int load_install(struct pve_driver *d, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;

	if (str_printf(&path, e, "%s/proxmox-id", d->env->paths->state) < 0)
		return -1;
	if (path_exists(path)) {
		if (file_read(path, 64, &text, NULL, e) < 0)
			return -1;
		if (strspn(text, "0123456789abcdef") >= 8) {
			memcpy(d->install, text, 8);
			return 0;
		}
	}
	if (str_random_hex(4, d->install, e) < 0)
		return -1;
	return file_write_atomic(path, d->install, 8, 0600, e);
}

static int any_row(void *arg, const struct journal_thing *t, struct err *e)
{
	(void)e;
	*(bool *)arg |= strcmp(t->driver, PVE_NAME) == 0;
	return 0;
}

static int pve_open(const struct driver_env *env, struct driver **ret, struct err *e)
{
	struct pve_driver *d = calloc(1, sizeof(*d));
	bool leftovers = false;

	if (!d)
		return err_oom(e);
	d->base.ops = &driver_proxmox;
	d->env = env;
	d->cleaner_fd = -1;
	d->cleaner_op.cancel_fd = -1;
	pthread_mutex_init(&d->mu, NULL);
	if (turn_init(&d->saving, e) < 0 || pve_global_init(e) < 0 ||
		op_init(&d->cleaner_op, "cleaner", 0, e) < 0 || load_install(d, e) < 0 ||
		str_printf(&d->access_path, e, "%s/proxmox-logins.json", env->paths->state) < 0)
		goto fail;
	pve_import_sweep(env);
	d->cleaner_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->cleaner_fd < 0) {
		err_sys(e, errno, "eventfd");
		goto fail;
	}
	/* Servers may be slow or away: what an earlier daemon left is not waited for. */
	if (journal_each_thing(env->journal, NULL, any_row, &leftovers, e) < 0 ||
		(leftovers && pve_cleaner_start(d, e) < 0))
		goto fail;
	*ret = &d->base;
	return 0;
fail:
	pve_close(&d->base);
	return -1;
}

static int pve_validate(struct driver *base, const struct sandbox_spec *spec, struct err *e)
{
	(void)base;
	return pve_check_spec(spec, e);
}

/* ---- boxes ---- */

void pve_box_free(struct pve_box *b)
{
	for (size_t i = 0; i < b->n_vms; i++) {
		struct pve_vm *vm = &b->vms[i];

		guest_free(vm->guest);
		json_decref(vm->template_config);
		free(vm->seed_volid);
		free(vm->console_url);
		if (vm->ready_fd >= 0)
			close(vm->ready_fd);
		turn_done(&vm->opening);
		pthread_mutex_destroy(&vm->mu);
	}
	free(b->vms);
	free(b->vnets);
	free(b->iso_storage);
	free(b->dns);
	free(b);
}

static int box_new(
	struct pve_driver *d, const struct box_request *req, struct pve_box **ret, struct err *e)
{
	struct pve_box *b = calloc(1, sizeof(*b));

	if (!b)
		return err_oom(e);
	b->base.driver = &d->base;
	b->d = d;
	b->spec = req->spec;
	snprintf(b->id, sizeof(b->id), "%s", req->id);
	snprintf(b->range_key, sizeof(b->range_key), "%s", req->id);
	snprintf(b->stamp, sizeof(b->stamp), "moat-%s-%s", d->install, req->id);
	b->vms = calloc(req->spec->n_vms, sizeof(*b->vms));
	if (!b->vms) {
		pve_box_free(b);
		return err_oom(e);
	}
	for (size_t i = 0; i < req->spec->n_vms; i++) {
		struct pve_vm *vm = &b->vms[i];

		vm->box = b;
		vm->spec = &req->spec->vms[i];
		b->ram_mb += vm->spec->ram_mb;
		pthread_mutex_init(&vm->mu, NULL);
		b->n_vms = i + 1;
		vm->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (turn_init(&vm->opening, e) < 0 || vm->ready_fd < 0) {
			err_sys(e, errno, "VM %s", vm->spec->name);
			pve_box_free(b);
			return -1;
		}
	}
	*ret = b;
	return 0;
}

static void enter_box(struct pve_box *b)
{
	auto_unlock pthread_mutex_t *held = lock_take(&b->d->mu);

	b->next = b->d->boxes;
	b->d->boxes = b;
}

static void leave_box(struct pve_box *b)
{
	auto_unlock pthread_mutex_t *held = lock_take(&b->d->mu);

	for (struct pve_box **at = &b->d->boxes; *at; at = &(*at)->next)
		if (*at == b) {
			*at = b->next;
			return;
		}
}

/* ---- making ---- */

struct making {
	struct pve_box *b;
	const json_t *vms; /* as the node listed them */
	size_t *order;
};

static int source_and_clone(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct making *m = arg;

	return pve_source_find(&m->b->vms[i], op, m->vms, e) < 0
		       ? -1
		       : pve_vm_clone(&m->b->vms[i], op, e);
}

/* Networks are applied while VMs are cloned: both take seconds, and neither needs the other. */
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

/* The server gives each card the next free address: those that have a claim to one come first. */
static int configure_all(struct making *m, const struct op *op, struct err *e)
{
	for (size_t i = 0; i < m->b->n_vms; i++)
		if (has_static(m->b->vms[i].spec) && pve_vm_configure(&m->b->vms[i], op, e) < 0)
			return -1;
	return pve_together(op, m->b->n_vms, configure_other, m, e);
}

static bool others_wait_for(const struct sandbox_spec *spec, size_t vm)
{
	for (size_t i = 0; i < spec->n_vms; i++)
		if (i != vm && spec_waits_for(spec, i, vm))
			return true;
	return false;
}

static int start_one(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct making *m = arg;
	struct pve_box *b = m->b;
	size_t at = m->order[i];
	uint64_t one = 1;

	for (size_t k = 0; k < b->n_vms; k++)
		if (k != at && spec_waits_for(b->spec, at, k) &&
			op_wait_fd(op, b->vms[k].ready_fd, POLLIN, e) < 0)
			return -1;
	if (pve_vm_start(&b->vms[at], op, e) < 0)
		return -1;
	if ((b->vms[at].spec->is_sandbox || others_wait_for(b->spec, at)) &&
		pve_vm_wait_ready(&b->vms[at], op, e) < 0)
		return -1;
	if (write(b->vms[at].ready_fd, &one, sizeof(one)) < 0)
		return err_sys(e, errno, "eventfd");
	return 0;
}

static int fill_box(struct pve_box *b, const struct op *op, const json_t *vms, struct err *e)
{
	auto_free size_t *order = calloc(b->n_vms, sizeof(size_t));
	auto_pve_storages struct pve_storages st = {0};
	struct making m = {.b = b, .vms = vms, .order = order};

	if (!order)
		return err_oom(e);
	spec_start_order(b->spec, order);
	if (pve_access_save(b->d, e) < 0 || pve_storages_find(b->inst, op, &st, e) < 0)
		return -1;
	b->iso_storage = take_ptr(&st.iso);
	if (pve_wall_find(b, op, e) < 0)
		return -1;
	if (pve_together(op, b->n_vms + 1, net_or_vm, &m, e) < 0 || configure_all(&m, op, e) < 0)
		return -1;
	if (pve_together(op, b->n_vms, start_one, &m, e) < 0)
		return -1;
	pve_place_started(b);
	return 0;
}

/* ---- removing ---- */

struct rows {
	struct pve_driver *d;
	bool vms; /* or all else */
	struct journal_thing *things;
	size_t n;
};

static int keep_row(void *arg, const struct journal_thing *t, struct err *e)
{
	struct rows *r = arg;
	struct journal_thing *more, *at;

	if (pve_thing_is_vm(t) != r->vms)
		return 0;
	more = reallocarray(r->things, r->n + 1, sizeof(*more));
	if (!more)
		return err_oom(e);
	r->things = more;
	at = &r->things[r->n];
	*at = *t;
	at->sandbox = strdup(t->sandbox);
	at->kind = strdup(t->kind);
	at->ref = strdup(t->ref);
	at->state = strdup(t->state);
	r->n++;
	return at->sandbox && at->kind && at->ref && at->state ? 0 : err_oom(e);
}

static void free_rows(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free((char *)r->things[i].sandbox);
		free((char *)r->things[i].kind);
		free((char *)r->things[i].ref);
		free((char *)r->things[i].state);
	}
	free(r->things);
}

static int remove_row(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct rows *r = arg;

	if (pve_reclaim(&r->d->base, op, &r->things[i], e) < 0)
		return -1;
	return journal_gone(r->d->env->journal, r->things[i].row, e);
}

/* VMs first and all at once, then what they used. */
static int remove_things(struct pve_box *b, const struct op *op, struct err *e)
{
	struct rows vms = {.d = b->d, .vms = true}, rest = {.d = b->d};
	int rc = -1;

	if (journal_each_thing(b->d->env->journal, b->id, keep_row, &vms, e) == 0 &&
		pve_together(op, vms.n, remove_row, &vms, e) == 0 &&
		journal_each_thing(b->d->env->journal, b->id, keep_row, &rest, e) == 0) {
		rc = 0;
		for (size_t i = 0; i < rest.n && rc == 0; i++)
			rc = remove_row(&rest, i, op, e);
	}
	free_rows(&vms);
	free_rows(&rest);
	return rc;
}

static int remove_box(struct pve_box *b, const struct op *op, struct err *e)
{
	struct pve_driver *d = b->d;
	struct err ignored;
	int rc = 0;

	for (size_t i = 0; i < b->n_vms; i++) {
		guest_free(b->vms[i].guest);
		b->vms[i].guest = NULL;
	}
	if (b->site)
		rc = remove_things(b, op, e);
	if (rc < 0)
		pve_inst_dirty(d, b->inst, e);
	else if (journal_sandbox_remove(d->env->journal, b->id, e) < 0)
		rc = -1;
	pve_net_forget(b);
	pve_place_leave(b);
	leave_box(b);
	pve_box_free(b);
	if (rc < 0)
		pve_cleaner_wake(d);
	else if (pve_access_save(d, &ignored) < 0)
		log_err(op, LOG_WARN, &ignored, "logins");
	return rc;
}

static int pve_create(struct driver *base, const struct op *op, const struct box_request *req,
	struct box **ret, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	struct op cleanup = op_for_cleanup(REMOVAL_SECONDS);
	auto_free struct pve_inst **insts = NULL;
	auto_json json_t *vms = NULL;
	struct pve_box *b;
	struct err undo;

	if (pve_access_read(d, req->access, &insts, e) < 0 || box_new(d, req, &b, e) < 0)
		return -1;
	enter_box(b);
	if (pve_place(b, op, insts, &vms, e) < 0)
		goto fail;
	b->api = pve_site_api(b->site);
	if (fill_box(b, op, vms, e) < 0) {
		if (e->kind == ERR_UNAVAILABLE && e->sys == PVE_NOT_SENT)
			pve_inst_failed(d, b->inst, e);
		err_wrap(e, "server %s", b->inst->id);
		goto fail;
	}
	*ret = &b->base;
	return 0;
fail:
	cleanup = op_for_cleanup(REMOVAL_SECONDS);
	if (remove_box(b, &cleanup, &undo) < 0)
		log_err(op, LOG_ERROR, &undo, "%s: cannot remove all that was made yet", req->id);
	return -1;
}

static int pve_destroy(struct driver *base, const struct op *op, struct box *box, struct err *e)
{
	(void)base;
	return remove_box((struct pve_box *)box, op, e);
}

/* ---- using ---- */

static struct pve_vm *vm_of(struct box *box, unsigned vm)
{
	return &((struct pve_box *)box)->vms[vm];
}

static int pve_take(
	struct box *box, const struct op *op, unsigned vm, struct guest **ret, struct err *e)
{
	struct op boot = op_within(op, vm_of(box, vm)->box->d->env->boot_timeout);

	return pve_vm_guest_take(vm_of(box, vm), &boot, ret, e);
}

static void pve_give(struct box *box, unsigned vm, struct guest *g)
{
	(void)box;
	(void)vm;
	(void)g; /* it lives as long as the box */
}

static void pve_explain(struct box *box, unsigned vm, struct err *e)
{
	pve_vm_explain(vm_of(box, vm), e);
}

static const char *source_name(const struct source_spec *s)
{
	return s->built_in ? s->built_in : s->ova ? s->ova : s->image ? s->image : s->template_tag;
}

static void pve_describe(struct box *box, unsigned i, struct box_vm_info *ret)
{
	struct pve_vm *vm = vm_of(box, i);
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);

	*ret = (struct box_vm_info){.state = vm->state,
		.image = source_name(&vm->spec->source),
		.user = spec_user(vm->spec->user, vm->windows),
		.accelerator = "",
		.way = vm->guest ? guest_way(vm->guest) : "",
		.console = vm->console_url,
		.server = vm->box->inst->id,
		.vmid = vm->vmid};
	if (vm->state == BOX_VM_STARTING && !vm->spec->is_sandbox)
		ret->state = BOX_VM_RUNNING;
	if (vm->state == BOX_VM_DEAD)
		snprintf(ret->error, sizeof(ret->error), "%.500s", vm->death.msg);
}

static int pve_log_path(struct box *box, unsigned vm, enum box_log which, char **ret, struct err *e)
{
	(void)which;
	(void)ret;
	return err_set(e, ERR_UNSUPPORTED, "the server keeps no console log; its console is at %s",
		vm_of(box, vm)->console_url);
}

static int reclaim_op(struct driver *base, const struct op *op, const struct journal_thing *t,
	const json_t *access, struct err *e)
{
	(void)access; /* servers are entered before, and remembered */
	return pve_reclaim(base, op, t, e);
}

const struct driver_ops driver_proxmox = {
	.name = PVE_NAME,
	.remote = true,
	.removal_seconds = REMOVAL_SECONDS,
	.open = pve_open,
	.close = pve_close,
	.doctor = pve_doctor,
	.validate = pve_validate,
	.create = pve_create,
	.destroy = pve_destroy,
	.reclaim = reclaim_op,
	.sweep = pve_sweep,
	.guest_take = pve_take,
	.guest_give = pve_give,
	.explain = pve_explain,
	.describe = pve_describe,
	.log_path = pve_log_path,
	.snapshot = pve_snapshot,
	.restore = pve_restore,
	.snapshot_vm = pve_snapshot_vm,
	.restore_vm = pve_restore_vm,
	.pool = pve_pool_op,
	.images = pve_images,
};
