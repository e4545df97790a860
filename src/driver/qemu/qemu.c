/*
 * The local driver: QEMU processes on this machine. A box is a directory (overlays, logs) and one
 * QEMU per VM, each below a guard that takes it along when the daemon dies. See qemu-vm.h for the
 * life of one VM.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "driver/accel.h"
#include "driver/health.h"
#include "driver/qemu-args.h"
#include "driver/qemu-box.h"
#include "driver/qemu-check.h"
#include "driver/qemu-net.h"
#include "guest/wire.h"
#include "net/show.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/sha256.h"
#include "util/str.h"

enum { OVERHEAD_MB = 48 }; /* what a QEMU needs besides memory for the guest and its code */

#define ROOM_SECONDS 2.0

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
	(void)access; /* it is this host */
	return qemu_doctor(((struct qemu_driver *)base)->env, op, say, arg, e);
}

static int qemu_validate(struct driver *base, const struct sandbox_spec *spec, struct err *e)
{
	return qemu_check_spec(((struct qemu_driver *)base)->env, spec, e);
}

/* ---- making and removing ---- */

static int journal_thing(struct qemu_box *b, const char *kind, const char *ref, struct err *e)
{
	struct journal_thing t = {.sandbox = b->id, .driver = "qemu", .kind = kind, .ref = ref};
	int64_t row;

	return journal_intent(b->d->env->journal, &t, &row, e);
}

static void box_free(struct qemu_box *b)
{
	for (size_t i = 0; i < b->n_vms; i++)
		qemu_vm_free(&b->vms[i]);
	net_close(b->net);
	free(b->vms);
	free(b->dir);
	turn_done(&b->saving);
	free(b);
}

/* By its path: each of many directories may have a box.ova, and they must not take the name from
 * each other. */
static int name_ova(const char *path, char **ret, struct err *e)
{
	enum { BASE_MAX = 40, DIGITS = 12 }; /* an image's name may have 64 */
	const char *base = strrchr(path, '/');
	char hex[SHA256_HEX + 1];
	struct sha256 s;

	sha256_start(&s);
	sha256_add(&s, path, strlen(path));
	sha256_end(&s, hex);
	if (str_printf(ret, e, "ova-%.*s-%.*s", BASE_MAX, base ? base + 1 : path, DIGITS, hex) < 0)
		return -1;
	for (char *c = *ret; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '-';
	return 0;
}

/* An OVA becomes an image under a name of its own; importing the same file again changes nothing.
 */
static int import_ova(
	struct qemu_box *b, const struct op *op, const char *path, char **ret_digest, struct err *e)
{
	auto_image struct image *image = NULL;
	auto_free char *name = NULL;
	struct import_req req = {.path = path};

	if (name_ova(path, &name, e) < 0)
		return -1;
	req.name = name;
	if (store_import(b->d->env->store, op, &req, &image, e) < 0)
		return -1;
	return str_dup(image->digest, ret_digest, e);
}

static int use_image(struct qemu_box *b, const struct op *op, struct qemu_vm *vm, struct err *e)
{
	const struct source_spec *source = &vm->spec->source;
	auto_free char *digest = NULL;

	if (source->kind == SPEC_SOURCE_OVA && import_ova(b, op, source->ova, &digest, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	return store_use(b->d->env->store, digest ? digest : qemu_source_name(source), &vm->image,
		&vm->use, e);
}

static bool holds_windows(const struct image *image)
{
	enum spec_os os;
	struct err ignored;

	return spec_os_find(image->os_type, &os, &ignored) == 0 && spec_os_is_windows(os);
}

/* A VM that can be freed, whatever happens next. */
static int init_vm(struct qemu_box *b, const struct op *op, size_t i, struct err *e)
{
	struct qemu_vm *vm = &b->vms[i];
	const struct vm_spec *spec = &b->spec->vms[i];

	b->n_vms = i + 1;
	if (qemu_vm_init(vm,
		    &(struct qemu_vm_where){.env = b->d->env,
			    .sandbox = b->id,
			    .dir = b->dir,
			    .spec = spec,
			    .sandbox_spec = b->spec,
			    .index = i,
			    .net = b->net,
			    .kvm = b->d->kvm},
		    e) < 0)
		return -1;
	if (use_image(b, op, vm, e) < 0)
		return -1;
	vm->user = spec->user ? spec->user : vm->image->user;
	vm->windows = spec_os_is_windows(spec->os_type) || holds_windows(vm->image);
	return 0;
}

static int box_new(struct qemu_driver *d, const char *id, const struct sandbox_spec *spec,
	struct qemu_box **ret, struct err *e)
{
	struct qemu_box *b = calloc(1, sizeof(*b));

	if (!b)
		return err_oom(e);
	b->base.driver = &d->base;
	b->d = d;
	b->spec = spec;
	snprintf(b->id, sizeof(b->id), "%s", id);
	b->vms = calloc(spec->n_vms, sizeof(*b->vms));
	if (!b->vms || turn_init(&b->saving, e) < 0 ||
		getrandom(&b->random, sizeof(b->random), 0) != sizeof(b->random) ||
		str_printf(&b->dir, e, "%s/%s", d->root, id) < 0) {
		box_free(b);
		return err_oom(e);
	}
	*ret = b;
	return 0;
}

void qemu_box_keep(struct qemu_box *b)
{
	for (size_t i = 0; i < b->n_vms; i++)
		qemu_vm_keep(&b->vms[i]);
	net_keep(b->net);
}

int qemu_box_remove(struct qemu_box *b, const struct op *op, struct err *e)
{
	auto_free char *dir = NULL;
	char id[sizeof(b->id)];
	struct journal *j = b->d->env->journal;
	struct op soon;
	struct err late;

	memcpy(id, b->id, sizeof(id));
	dir = take_ptr(&b->dir);
	box_free(b);
	/* A full disk has room again when the kernel has taken QEMU apart, a moment after its end;
	 * and open files that ran out come back, too. */
	soon = op_within(op, ROOM_SECONDS);
	while (dir_remove(dir, e) < 0 || journal_sandbox_remove(j, id, e) < 0)
		if (!err_is_shortage(e) || op_pause(&soon, 0.02, &late) < 0)
			return -1;
	return 0;
}

/* By whatever way there is at the time: the VM may restart while it is not well yet. */
static int wait_until_well(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct health h;
	struct guest *g;
	int rc;

	health_begin(&h, vm->spec, vm->user);
	do {
		if (ways_take(&vm->ways, op, &g, e) < 0)
			return -1;
		rc = health_ask(&h, g, op, e);
		ways_give(&vm->ways, g);
	} while (rc == 0);
	return rc < 0 ? -1 : 0;
}

/* A VM that nobody looks into is ready, and itself, when it runs. */
static bool is_looked_into(const struct qemu_vm *vm)
{
	return vm->spec->is_sandbox || vm->spec->healthcheck;
}

/* Once: what it has got it keeps. */
static int make_own(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op boot = op_within(op, vm->env->boot_timeout);

	if (vm->identified || !is_looked_into(vm))
		return 0;
	op_progress(op, 0, 0, "waiting for %s", vm->spec->name);
	if (qemu_identify(vm, &boot, e) < 0) {
		struct err why = *e;

		if (!vm->copied || op_check(op, e) < 0) {
			*e = why;
			return -1;
		}
		if (qemu_vm_go_cold(vm, op, &why, e) < 0)
			return -1;
	}
	vm->identified = true;
	return 0;
}

/* Ready: it answers, and its healthcheck, if it has one, passed. */
static int wait_ready(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op boot;
	struct guest *g;

	if (!is_looked_into(vm))
		return 0;
	if (make_own(vm, op, e) < 0)
		return -1;
	boot = op_within(op, vm->env->boot_timeout);
	if (ways_take(&vm->ways, &boot, &g, e) < 0)
		return -1;
	ways_give(&vm->ways, g);
	if (qemu_await_addresses(vm, op, e) < 0)
		return -1;
	if (!vm->spec->healthcheck)
		return 0;
	op_progress(op, 0, 0, "waiting for %s", vm->spec->name);
	return wait_until_well(vm, op, e);
}

static bool others_wait_for(const struct sandbox_spec *spec, const struct vm_spec *vm)
{
	if (vm->await_before_next_vm)
		return true;
	for (size_t i = 0; i < spec->n_vms; i++)
		for (size_t k = 0; k < spec->vms[i].n_depends_on; k++)
			if (strcasecmp(spec->vms[i].depends_on[k], vm->name) == 0)
				return true;
	return false;
}

static int start_vm(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct err why;

	if (qemu_template_choose(vm, op, e) < 0)
		return -1;
	if (qemu_vm_prepare(vm, op, e) == 0 && qemu_vm_start(vm, op, e) == 0)
		return 0;
	why = *e;
	if (!vm->copied || op_check(op, e) < 0) {
		*e = why;
		return -1;
	}
	return qemu_vm_go_cold(vm, op, &why, e);
}

static int start_all(struct qemu_box *b, const struct op *op, struct err *e)
{
	auto_free size_t *order = calloc(b->spec->n_vms, sizeof(size_t));

	if (!order)
		return err_oom(e);
	spec_start_order(b->spec, order);
	for (size_t i = 0; i < b->spec->n_vms; i++) {
		struct qemu_vm *vm = &b->vms[order[i]];

		op_progress(op, i, b->spec->n_vms, "starting %s", vm->spec->name);
		if (start_vm(vm, op, e) < 0)
			return err_wrap(e, "VM %s", vm->spec->name);
		if (others_wait_for(b->spec, vm->spec) && wait_ready(vm, op, e) < 0)
			return -1;
	}
	/* One asks for its address while the next becomes itself. */
	for (size_t i = 0; i < b->spec->n_vms; i++)
		if (make_own(&b->vms[order[i]], op, e) < 0)
			return -1;
	for (size_t i = 0; i < b->spec->n_vms; i++)
		if (wait_ready(&b->vms[order[i]], op, e) < 0)
			return -1;
	qemu_box_keep(b);
	return 0;
}

static int fill_box(struct qemu_box *b, const struct op *op, struct err *e)
{
	if (journal_thing(b, "dir", b->dir, e) < 0 || journal_thing(b, "processes", b->id, e) < 0)
		return -1;
	if (dir_make(b->dir, 0700, e) < 0 ||
		qemu_net_open(b->d->env, op, b->id, b->spec, b->random, &b->net, e) < 0)
		return -1;
	for (size_t i = 0; i < b->spec->n_vms; i++)
		if (init_vm(b, op, i, e) < 0)
			return -1;
	return 0;
}

static void undo_box(struct qemu_box *b, const struct op *op)
{
	struct op cleanup = op_for_cleanup(QEMU_CLEANUP_SECONDS);
	struct err undo;

	if (qemu_box_remove(b, &cleanup, &undo) < 0)
		log_err(op, LOG_ERROR, &undo, "cannot remove what was made");
}

int qemu_box_new(struct qemu_driver *d, const struct op *op, const struct box_request *req,
	const struct qemu_box *like, struct qemu_box **ret, struct err *e)
{
	struct qemu_box *b = NULL;

	if (box_new(d, req->id, req->spec, &b, e) < 0)
		return -1;
	if (like)
		b->random = like->random;
	if (fill_box(b, op, e) < 0) {
		undo_box(b, op);
		return -1;
	}
	*ret = b;
	return 0;
}

static int qemu_create(struct driver *base, const struct op *op, const struct box_request *req,
	struct box **ret, struct err *e)
{
	struct qemu_box *b;

	if (qemu_box_new((struct qemu_driver *)base, op, req, NULL, &b, e) < 0)
		return -1;
	if (start_all(b, op, e) < 0) {
		undo_box(b, op);
		return -1;
	}
	*ret = &b->base;
	return 0;
}

static int qemu_destroy(struct driver *base, const struct op *op, struct box *box, struct err *e)
{
	(void)base;
	return qemu_box_remove((struct qemu_box *)box, op, e);
}

static int qemu_reclaim(struct driver *base, const struct op *op, const struct journal_thing *t,
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

/* Directories without a journal row: left by a power cut. */
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

static struct qemu_vm *vm_of(struct box *box, unsigned vm)
{
	return &((struct qemu_box *)box)->vms[vm];
}

static int qemu_take(
	struct box *box, const struct op *op, unsigned vm, struct guest **ret, struct err *e)
{
	struct op boot = op_within(op, vm_of(box, vm)->env->boot_timeout);

	return ways_take(&vm_of(box, vm)->ways, &boot, ret, e);
}

static void qemu_give(struct box *box, unsigned vm, struct guest *g)
{
	ways_give(&vm_of(box, vm)->ways, g);
}

static void qemu_explain(struct box *box, unsigned vm, struct err *e)
{
	qemu_vm_explain(vm_of(box, vm), e);
}

static void qemu_describe(struct box *box, unsigned i, struct box_vm_info *ret)
{
	struct qemu_vm *vm = vm_of(box, i);
	const char *way = ways_name(&vm->ways);
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);

	*ret = (struct box_vm_info){.state = vm->state,
		.image = qemu_source_name(&vm->spec->source),
		.user = spec_user(vm->user, vm->windows),
		.accelerator = vm->kvm ? "kvm" : "tcg",
		.way = way,
		.pid = vm->proc.pid > 0 ? (int)vm->proc.pid : 0,
		.start = vm->template ? "warm" : "cold",
		.cold_reason = vm->cold_reason[0] ? vm->cold_reason : NULL};
	/* Running is what a VM without an agent does from the start. */
	if (vm->state == BOX_VM_STARTING && !vm->spec->is_sandbox)
		ret->state = BOX_VM_RUNNING;
	if (vm->state == BOX_VM_DEAD)
		snprintf(ret->error, sizeof(ret->error), "%.500s", vm->death.msg);
}

static int qemu_shot(
	struct box *box, const struct op *op, unsigned vm, struct buf *ret, struct err *e)
{
	return qemu_screenshot(vm_of(box, vm), op, ret, e);
}

static int qemu_log_path(
	struct box *box, unsigned vm, enum box_log which, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s/%s.%s", ((struct qemu_box *)box)->dir,
		vm_of(box, vm)->spec->name, which == BOX_LOG_CONSOLE ? "console.log" : "qemu.log");
}

static int net_of(struct box *box, struct net **ret, struct err *e)
{
	*ret = ((struct qemu_box *)box)->net;
	return *ret ? 0
		    : err_set(e, ERR_UNSUPPORTED,
			      "sandbox %s has no network that could be looked into",
			      ((struct qemu_box *)box)->id);
}

static int qemu_net_show(struct box *box, const struct op *op, json_t **ret, struct err *e)
{
	struct net *net;

	return net_of(box, &net, e) < 0 ? -1 : net_show(net, op, ret, e);
}

static int qemu_net_forward(struct box *box, const struct op *op, unsigned vm, unsigned port,
	unsigned host_port, json_t **ret, struct err *e)
{
	struct net *net;

	return net_of(box, &net, e) < 0 ? -1 : net_forward(net, op, vm, port, host_port, ret, e);
}

static int qemu_net_unforward(
	struct box *box, const struct op *op, unsigned host_port, struct err *e)
{
	struct net *net;

	return net_of(box, &net, e) < 0 ? -1 : net_unforward(net, op, host_port, e);
}

static int qemu_net_capture(struct box *box, const struct op *op, const char *vnet,
	int (*output)(void *arg, struct bytes data, struct err *e), void *arg, struct err *e)
{
	struct net *net;

	return net_of(box, &net, e) < 0 ? -1 : net_capture(net, op, vnet, output, arg, e);
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
	.screenshot = qemu_shot,
	.log_path = qemu_log_path,
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
};
