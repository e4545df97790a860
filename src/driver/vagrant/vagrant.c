/*
 * The Vagrant driver: whatever hypervisor a Vagrantfile asks for. `vagrant` itself, a slow Ruby
 * program, runs only to make, snapshot and destroy; everything inside the machines goes over one
 * SSH connection each.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "driver/vagrant/destroy.h"
#include "driver/vagrant/doctor.h"
#include "driver/vagrant/net.h"
#include "driver/vagrant/sandbox.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/str.h"

#define REMOVAL_SECONDS 180.0
/* The kind of our journal entries: a directory with its machines. */
#define JOURNAL_KIND "vagrant"

static void vagrant_close(struct driver *base)
{
	struct vagrant_driver *d = (struct vagrant_driver *)base;

	if (!d)
		return;
	slots_done(&d->startups);
	free(d->lock_dir);
	free(d);
}

static int vagrant_open(const struct driver_env *env, struct driver **ret, struct err *e)
{
	struct vagrant_driver *d = calloc(1, sizeof(*d));

	if (!d)
		return err_oom(e);
	d->base.ops = &driver_vagrant;
	d->env = env;
	slots_init(&d->startups);
	if (str_printf(&d->lock_dir, e, "%s/vagrant", env->paths->cache) < 0) {
		vagrant_close(&d->base);
		return -1;
	}
	*ret = &d->base;
	return 0;
}

static int doctor_op(struct driver *base, const struct op *op, const json_t *access,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e)
{
	return vagrant_doctor(((struct vagrant_driver *)base)->env, op, access, say, arg, e);
}

static int validate_op(struct driver *base, const struct sandbox_spec *spec, struct err *e)
{
	(void)base;
	return vagrant_want_check(spec, e);
}

/* ---- making and removing ---- */

static void sandbox_free(struct vagrant_sandbox *b)
{
	forwards_free(b->forwards);
	for (unsigned i = 0; i < b->n_vms; i++) {
		vagrant_vm_free(b->vms[i]);
		free(b->vms[i]);
	}
	vagrant_dir_close(&b->dir);
	turn_done(&b->whole);
	vagrant_want_free(&b->want);
	spec_free(b->spec);
	free(b->report);
	free(b);
}

static int sandbox_new(struct vagrant_driver *d, const struct sandbox_request *req,
	struct vagrant_sandbox **ret, struct err *e)
{
	auto_free char *name = NULL;
	struct vagrant_sandbox *b = calloc(1, sizeof(*b));

	if (!b)
		return err_oom(e);
	b->base.driver = &d->base;
	b->d = d;
	vagrant_dir_init(&b->dir, d->env->helper_path);
	snprintf(b->id, sizeof(b->id), "%s", req->id);
	b->report = calloc(1, sizeof(*b->report));
	turn_init(&b->whole);
	if (!b->report || forwards_new(vagrant_net_connect, b, &b->forwards, e) < 0 ||
		vagrant_want_read(req->spec, req->access, &b->want, e) < 0 ||
		vagrant_dir_name(b->id, &name, e) < 0 ||
		str_printf(&b->dir.path, e, "%s/%s", b->want.cache_dir, name) < 0) {
		if (!b->report)
			err_oom(e);
		sandbox_free(b);
		return -1;
	}
	*ret = b;
	return 0;
}

/* The machines go first: without the directory nobody could destroy them. */
static int remove_dir(struct vagrant_dir *d, const struct op *op, struct err *e)
{
	return vagrant_destroy_all(d, op, e) < 0 ? -1 : dir_remove(d->path, e);
}

static int remove_sandbox(struct vagrant_sandbox *b, const struct op *op, struct err *e)
{
	struct journal *j = b->d->env->journal;
	int rc;

	forwards_free(take_ptr(&b->forwards)); /* forwarded connections use the machines */
	for (unsigned i = 0; i < b->n_vms; i++)
		links_lost(&b->vms[i]->links, "the sandbox is being removed");
	rc = b->dir.env.n ? remove_dir(&b->dir, op, e) : dir_remove(b->dir.path, e);
	if (rc == 0)
		rc = journal_sandbox_remove(j, b->id, e);
	sandbox_free(b);
	return rc;
}

static int fill_sandbox(struct vagrant_sandbox *b, const struct op *op,
	const struct sandbox_request *req, struct err *e)
{
	struct journal_entry t = {
		.sandbox = b->id, .driver = "vagrant", .kind = JOURNAL_KIND, .ref = b->dir.path};
	int64_t row;
	int rc;

	if (dir_make(b->d->lock_dir, 0700, e) < 0 || dir_make(b->want.cache_dir, 0700, e) < 0 ||
		journal_intent(b->d->env->journal, &t, &row, e) < 0 ||
		vagrant_dir_make(op, &b->want, req->access, b->id, b->d->lock_dir, &b->dir, e) < 0)
		return -1;
	if (!slots_try(&b->d->startups, b->want.max_startups)) {
		op_progress(op, 0, 0, "waiting for a turn to start");
		if (slots_take(&b->d->startups, op, b->want.max_startups, e) < 0)
			return -1;
	}
	rc = vagrant_sandbox_up(b, op, req, e);
	slots_give(&b->d->startups);
	return rc < 0 ? -1 : vagrant_sandbox_ready(b, op, e);
}

static int create_op(struct driver *base, const struct op *op, const struct sandbox_request *req,
	struct driver_sandbox **ret, struct err *e)
{
	struct vagrant_sandbox *b = NULL;
	struct op cleanup;
	struct err undo;

	if (sandbox_new((struct vagrant_driver *)base, req, &b, e) < 0)
		return -1;
	if (fill_sandbox(b, op, req, e) < 0) {
		cleanup = op_for_cleanup(REMOVAL_SECONDS);
		if (remove_sandbox(b, &cleanup, &undo) < 0)
			log_err(op, LOG_ERROR, &undo, "%s: cannot remove what was made", req->id);
		return -1;
	}
	*ret = &b->base;
	return 0;
}

static int destroy_op(
	struct driver *base, const struct op *op, struct driver_sandbox *sandbox, struct err *e)
{
	(void)base;
	return remove_sandbox((struct vagrant_sandbox *)sandbox, op, e);
}

static int final_spec_op(struct driver_sandbox *sandbox, struct sandbox_spec **ret, struct err *e)
{
	(void)e;
	*ret = take_ptr(&((struct vagrant_sandbox *)sandbox)->spec);
	return 0;
}

static int reclaim_op(struct driver *base, const struct op *op, const struct journal_entry *t,
	const json_t *access, struct err *e)
{
	struct vagrant_driver *drv = (struct vagrant_driver *)base;
	struct vagrant_dir d;
	int rc;

	if (strcmp(t->kind, JOURNAL_KIND) != 0)
		return err_set(e, ERR_INTERNAL, "the vagrant driver knows no \"%s\"", t->kind);
	vagrant_dir_init(&d, drv->env->helper_path);
	rc = vagrant_dir_open(t->ref, access, &d, e);
	if (rc == 0)
		rc = remove_dir(&d, op, e);
	vagrant_dir_close(&d);
	return rc < 0 ? err_wrap(e, "sandbox %s", t->sandbox) : 0;
}

/* ---- using ---- */

static struct vagrant_vm *vm_of(struct driver_sandbox *sandbox, unsigned vm)
{
	return ((struct vagrant_sandbox *)sandbox)->vms[vm];
}

static int take_op(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	struct guest **ret, struct err *e)
{
	return links_take(&vm_of(sandbox, vm)->links, op, ret, e);
}

static void give_op(struct driver_sandbox *sandbox, unsigned vm, struct guest *g)
{
	links_give(&vm_of(sandbox, vm)->links, g);
}

static void explain_op(struct driver_sandbox *sandbox, unsigned i, struct err *e)
{
	struct vagrant_vm *vm = vm_of(sandbox, i);
	auto_unlock struct lock *held = lock_take(&vm->mu);

	if (vm->state == VM_DEAD)
		*e = vm->death;
}

static void describe_op(struct driver_sandbox *sandbox, unsigned i, struct vm_info *ret)
{
	struct vagrant_sandbox *b = (struct vagrant_sandbox *)sandbox;
	struct vagrant_vm *vm = b->vms[i];
	const char *link = links_name(&vm->links);
	auto_unlock struct lock *held = lock_take(&vm->mu);

	*ret = (struct vm_info){.state = vm->state,
		.image = vm->provider,
		.user = vm->user[0] ? vm->user : vm->ssh.user,
		.accelerator = "",
		.link = link,
		.backend_dir = b->dir.root,
		.backend_name = vm->machine,
		.ssh_host = vm->ssh.port ? vm->alias : NULL};
	if (vm->state == VM_STARTING)
		ret->state = VM_RUNNING; /* Vagrant says so; no command has run in it yet */
	if (vm->state == VM_DEAD)
		snprintf(ret->error, sizeof(ret->error), "%.500s", vm->death.msg);
}

static int log_path_op(
	struct driver_sandbox *sandbox, unsigned vm, enum vm_log which, char **ret, struct err *e)
{
	(void)vm;
	(void)which; /* a machine's console is its hypervisor's: the only log is what Vagrant said
		      */
	return str_printf(
		ret, e, "%s/" VAGRANT_LOG_FILE, ((struct vagrant_sandbox *)sandbox)->dir.path);
}

static int snapshot_op(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e)
{
	return vagrant_sandbox_snapshot((struct vagrant_sandbox *)sandbox, op, name, false, e);
}

static int restore_op(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e)
{
	return vagrant_sandbox_snapshot((struct vagrant_sandbox *)sandbox, op, name, true, e);
}

const struct driver_ops driver_vagrant = {
	.name = "vagrant",
	.on_this_host = false,
	.removal_seconds = REMOVAL_SECONDS,
	.open = vagrant_open,
	.close = vagrant_close,
	.doctor = doctor_op,
	.validate = validate_op,
	.create = create_op,
	.final_spec = final_spec_op,
	.destroy = destroy_op,
	.reclaim = reclaim_op,
	.guest_take = take_op,
	.guest_give = give_op,
	.explain = explain_op,
	.describe = describe_op,
	.log_path = log_path_op,
	.net_show = vagrant_net_show,
	.net_forward = vagrant_net_forward,
	.net_unforward = vagrant_net_unforward,
	.snapshot = snapshot_op,
	.restore = restore_op,
};
