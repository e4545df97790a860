/*
 * The local driver: QEMU processes on this machine. A sandbox is a directory (overlays, logs) and
 * one QEMU per VM, each below a guard that ends it when the daemon dies. vm/vm.h has the life of
 * one VM.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/accel.h"
#include "driver/qemu/check.h"
#include "driver/qemu/commit.h"
#include "driver/qemu/doctor.h"
#include "driver/qemu/sandbox.h"
#include "driver/qemu/screen/input.h"
#include "driver/qemu/screen/screenshot.h"
#include "driver/qemu/screen/stream.h"
#include "driver/qemu/snapshot.h"
#include "driver/qemu/stamp.h"
#include "driver/qemu/start.h"
#include "driver/qemu/vm/args.h"
#include "driver/qemu/vm/container.h"
#include "net/ops.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "driver/usage.h"
#include "util/system/io.h"
#include "util/thread/lock.h"

enum { OVERHEAD_MB = 48 }; /* what a QEMU needs besides the guest's memory and translated code */

static void qemu_close(struct driver *base)
{
	struct qemu_driver *d = (struct qemu_driver *)base;

	if (!d)
		return;
	free(d->root);
	free(d);
}

static int choose_accel(struct qemu_driver *d, struct err *e)
{
	struct kvm_report report;
	bool works = accel_kvm_works(&report);

	if (strcmp(d->env->accel, "kvm") == 0 && !works)
		return err_set(
			e, ERR_UNSUPPORTED, "accelerator kvm was asked for, but %s", report.why);
	d->kvm = works && strcmp(d->env->accel, "tcg") != 0;
	return 0;
}

static int qemu_open(const struct driver_env *env, struct driver **ret, struct err *e)
{
	struct qemu_driver *d = calloc(1, sizeof(*d));

	if (!d)
		return err_oom(e);
	d->base.ops = &driver_qemu;
	d->env = env;
	if (choose_accel(d, e) < 0 ||
		str_printf(&d->root, e, "%s/sandboxes", env->paths->state) < 0 ||
		dir_make(d->root, 0700, e) < 0) {
		qemu_close(&d->base);
		return -1;
	}
	d->base.vm_overhead_mb = d->kvm ? OVERHEAD_MB : OVERHEAD_MB + QEMU_TCG_MB;
	*ret = &d->base;
	return 0;
}

static int qemu_doctor_op(struct driver *base, const struct op *op, const json_t *access,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e)
{
	(void)access; /* the backend is this host */
	return qemu_doctor(((struct qemu_driver *)base)->env, op, say, arg, e);
}

static int qemu_validate(struct driver *base, const struct sandbox_spec *spec, struct err *e)
{
	return qemu_check_spec(((struct qemu_driver *)base)->env, spec, e);
}

/* ---- making and removing ---- */

static int qemu_create(struct driver *base, const struct op *op, const struct sandbox_request *req,
	struct driver_sandbox **ret, struct err *e)
{
	struct qemu_sandbox *b;

	if (qemu_sandbox_new((struct qemu_driver *)base, op, req, NULL, &b, e) < 0)
		return -1;
	if (qemu_sandbox_start(b, op, e) < 0) {
		qemu_sandbox_undo(b, op);
		return -1;
	}
	*ret = &b->base;
	return 0;
}

static int qemu_destroy(
	struct driver *base, const struct op *op, struct driver_sandbox *sandbox, struct err *e)
{
	(void)base;
	return qemu_sandbox_remove((struct qemu_sandbox *)sandbox, op, e);
}

static int qemu_reclaim(struct driver *base, const struct op *op, const struct journal_entry *t,
	const json_t *access, struct err *e)
{
	unsigned found;

	(void)base;
	(void)access;
	if (strcmp(t->kind, "processes") == 0)
		return qemu_kill_stamped(op, t->ref, &found, e);
	if (strcmp(t->kind, "dir") == 0)
		return dir_remove(t->ref, e);
	return err_set(e, ERR_INTERNAL, "the qemu driver knows no \"%s\"", t->kind);
}

/* Removes directories without an entry in the journal: a power cut has left them. */
static int qemu_sweep(struct driver *base, const struct op *op,
	bool (*known)(void *arg, const char *id), void (*said)(void *arg, const char *what),
	void *arg, struct err *e)
{
	struct qemu_driver *d = (struct qemu_driver *)base;
	auto_dir DIR *dir = opendir(d->root);
	struct dirent *ent;

	if (!dir)
		return err_sys(e, errno, "%s", d->root);
	while ((ent = readdir(dir))) {
		auto_free char *path = NULL;
		unsigned found;

		if (ent->d_name[0] == '.' || known(arg, ent->d_name))
			continue;
		if (str_printf(&path, e, "%s/%s", d->root, ent->d_name) < 0 ||
			qemu_kill_stamped(op, ent->d_name, &found, e) < 0 ||
			dir_remove(path, e) < 0)
			return -1;
		said(arg, path);
	}
	return 0;
}

/* ---- using ---- */

static struct qemu_vm *vm_of(struct driver_sandbox *sandbox, unsigned vm)
{
	return &((struct qemu_sandbox *)sandbox)->vms[vm];
}

static int qemu_take(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	struct guest **ret, struct err *e)
{
	struct op boot = op_within(op, vm_of(sandbox, vm)->env->boot_timeout);

	return links_take(&vm_of(sandbox, vm)->links, &boot, ret, e);
}

static void qemu_give(struct driver_sandbox *sandbox, unsigned vm, struct guest *g)
{
	links_give(&vm_of(sandbox, vm)->links, g);
}

static void qemu_explain(struct driver_sandbox *sandbox, unsigned vm, struct err *e)
{
	qemu_vm_explain(vm_of(sandbox, vm), e);
}

static void qemu_describe(struct driver_sandbox *sandbox, unsigned i, struct vm_info *ret)
{
	const struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;
	struct qemu_vm *vm = vm_of(sandbox, i);
	const char *link = links_name(&vm->links);
	auto_unlock struct lock *held = lock_take(&vm->mu);

	*ret = (struct vm_info){.state = vm->state,
		.image = qemu_source_name(&vm->spec->source),
		.user = spec_user(vm->user, vm->windows),
		.accelerator = vm->kvm ? "kvm" : "tcg",
		.link = link,
		.pid = vm->proc.pid > 0 ? (int)vm->proc.pid : 0,
		.start = vm->template ? "warm" : "cold",
		.cold_reason = vm->cold_reason[0] ? vm->cold_reason : NULL,
		.lack = b->lack[0] ? b->lack : NULL,
		.container = vm->container};
	/* A VM that commands do not enter counts as running from the start. */
	if (vm->state == VM_STARTING && !vm->spec->is_sandbox)
		ret->state = VM_RUNNING;
	if (vm->state == VM_DEAD)
		snprintf(ret->error, sizeof(ret->error), "%.500s", vm->death.msg);
}

static void read_usage(int pid, struct vm_figures *ret)
{
	struct usage u;

	usage_of_tree(pid, "", &u);
	ret->cpu_us = (int64_t)u.cpu_us;
	ret->memory = (int64_t)u.resident;
}

static void qemu_figures(
	struct driver_sandbox *sandbox, const struct op *op, unsigned i, struct vm_figures *ret)
{
	struct qemu_vm *vm = vm_of(sandbox, i);
	struct err ignored;
	int pid = 0;

	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		if (vm->state != VM_DEAD)
			pid = (int)vm->proc.pid;
	}
	if (pid > 0)
		read_usage(pid, ret);
	/* Without them the columns stay empty. */
	if (vm->net && net_counters(vm->net, op, i, &ret->sent, &ret->received, &ignored) < 0)
		ret->sent = ret->received = -1;
}

static int qemu_shot(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	struct picture *ret, struct err *e)
{
	return qemu_screenshot(vm_of(sandbox, vm), op, ret, e);
}

static int qemu_type(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	const struct step *steps, size_t n, struct err *e)
{
	return qemu_input(vm_of(sandbox, vm), op, steps, n, e);
}

static int qemu_screen(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	int *ret_fd, struct err *e)
{
	return qemu_screen_open(vm_of(sandbox, vm), op, ret_fd, e);
}

static int qemu_log_path(
	struct driver_sandbox *sandbox, unsigned vm, enum vm_log which, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s/%s.%s", ((struct qemu_sandbox *)sandbox)->dir,
		vm_of(sandbox, vm)->spec->name,
		which == VM_LOG_CONSOLE ? "console.log" : "qemu.log");
}

static int qemu_service_log_op(struct driver_sandbox *sandbox, const struct op *op, unsigned i,
	bool follow, const struct guest_io *io, struct err *e)
{
	struct qemu_vm *vm = vm_of(sandbox, i);
	struct op boot = op_within(op, vm->env->boot_timeout);
	struct guest *g;
	int rc;

	if (!vm->container)
		return err_set(e, ERR_UNSUPPORTED,
			"VM %s is not made of a container image: it has no service",
			vm->spec->name);
	if (links_take(&vm->links, &boot, &g, e) < 0)
		return -1;
	rc = qemu_service_log(g, op, follow, io, e);
	links_give(&vm->links, g);
	return rc < 0 ? qemu_vm_explain(vm, e) : 0;
}

static int net_of(struct driver_sandbox *sandbox, struct net **ret, struct err *e)
{
	const struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;

	*ret = b->net;
	if (*ret)
		return 0;
	if (b->spec->networks.mode == SPEC_NET_AUTO && b->spec->vms[0].n_nics)
		return err_set(e, ERR_UNSUPPORTED,
			"sandbox %s has no vnet: this host could not make one, as `moat doctor` "
			"explains, and its NIC is on QEMU's user-mode network",
			b->id);
	return err_set(
		e, ERR_UNSUPPORTED, "sandbox %s has no network: its spec asks for none", b->id);
}

static int qemu_net_show(
	struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e)
{
	struct net *net;

	return net_of(sandbox, &net, e) < 0 ? -1 : net_show(net, op, ret, e);
}

static int qemu_net_forward(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	unsigned port, unsigned host_port, json_t **ret, struct err *e)
{
	struct net *net;

	return net_of(sandbox, &net, e) < 0 ? -1
					    : net_forward(net, op, vm, port, host_port, ret, e);
}

static int qemu_net_unforward(
	struct driver_sandbox *sandbox, const struct op *op, unsigned host_port, struct err *e)
{
	struct net *net;

	return net_of(sandbox, &net, e) < 0 ? -1 : net_unforward(net, op, host_port, e);
}

static int qemu_net_capture(struct driver_sandbox *sandbox, const struct op *op, const char *vnet,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e)
{
	struct net *net;

	return net_of(sandbox, &net, e) < 0 ? -1 : net_capture(net, op, vnet, output, arg, e);
}

const struct driver_ops driver_qemu = {
	.name = "qemu",
	.on_this_host = true,
	.removal_seconds = QEMU_CLEANUP_SECONDS,
	.open = qemu_open,
	.close = qemu_close,
	.doctor = qemu_doctor_op,
	.validate = qemu_validate,
	.create = qemu_create,
	.destroy = qemu_destroy,
	.reclaim = qemu_reclaim,
	.sweep = qemu_sweep,
	.guest_take = qemu_take,
	.guest_give = qemu_give,
	.explain = qemu_explain,
	.describe = qemu_describe,
	.figures = qemu_figures,
	.screenshot = qemu_shot,
	.input = qemu_type,
	.screen_open = qemu_screen,
	.log_path = qemu_log_path,
	.service_log = qemu_service_log_op,
	.net_show = qemu_net_show,
	.net_forward = qemu_net_forward,
	.net_unforward = qemu_net_unforward,
	.net_capture = qemu_net_capture,
	.snapshot = qemu_snapshot,
	.restore = qemu_restore,
	.snapshots = qemu_snapshots,
	.snapshot_rm = qemu_snapshot_rm,
	.create_from = qemu_create_from,
	.refresh = qemu_refresh,
	.commit = qemu_commit,
};
