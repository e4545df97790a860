/*
 * How it works: the disk is copied while the VM stands still, which takes a moment, or a few
 * seconds where the file system cannot share data. If the runner is in the guest, the guest's file
 * systems are frozen meanwhile, so that all their data is on the disk and they need no repair.
 * Otherwise the copy is like a disk after a power cut. The copy becomes an image while the VM goes
 * on.
 */
#include "driver/qemu/commit.h"

#include <string.h>

#include "driver/qemu/sandbox.h"
#include "driver/qemu/vm/disk.h"
#include "store/disk/commit.h"
#include "store/sparse.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/log.h"
#include "wire/wire.h"

#define LINK_SECONDS   20.0  /* until we do without the runner */
#define FREEZE_SECONDS 600.0 /* for the guest to flush and freeze, and for us to copy */
#define THAW_SECONDS   30.0
enum { ANSWER_MAX = 32, INBOX_MAX = 4096 };

extern const char qemu_script_freeze[]; /* freeze.sh */

struct commit {
	struct qemu_sandbox *b;
	struct qemu_vm *vm;
	enum commit_state state;
	/* While the guest's script has its file systems frozen: */
	const struct op *op;
	const char *dir;
	struct inbox *in;
	char answer[ANSWER_MAX];
	size_t answer_len;
	bool copied;
	int rc;
	struct err *e;
};

static int copy_files(const struct qemu_vm *vm, const struct op *op, const char *dir, struct err *e)
{
	auto_free char *overlay = NULL, *layer = NULL, *disk = NULL;

	if (str_printf(&disk, e, "%s/%s.qcow2", vm->dir, vm->spec->name) < 0 ||
		str_printf(&overlay, e, "%s/" COMMIT_OVERLAY, dir) < 0 ||
		str_printf(&layer, e, "%s/" COMMIT_LAYER, dir) < 0)
		return -1;
	op_progress(op, 0, 0, "copying the disk of %s", vm->spec->name);
	if (vm->template && vm->template->disk &&
		sparse_clone(op, vm->template->disk, layer, e) < 0)
		return -1;
	return sparse_clone(op, disk, overlay, e);
}

/* Copies while the VM stands still. It goes on afterwards, whatever has happened. */
static int copy_paused(struct commit *c, const struct op *op, const char *dir, struct err *e)
{
	int rc = qemu_vm_hold(c->vm, op, e);

	if (rc == 0)
		rc = copy_files(c->vm, op, dir, e);
	qemu_vm_let_go(c->vm);
	return rc;
}

/* The script answers with one line, and thaws when its input ends. So this never fails: the script
 * would be killed. */
static int on_answer(void *arg, int stream, struct bytes data, struct err *e)
{
	struct commit *c = arg;
	struct err why;
	size_t room = sizeof(c->answer) - 1 - c->answer_len;

	(void)e;
	if (stream != WIRE_STDOUT || c->copied)
		return 0;
	if (data.len < room)
		room = data.len;
	memcpy(c->answer + c->answer_len, data.p, room);
	c->answer_len += room;
	c->answer[c->answer_len] = 0;
	if (!strchr(c->answer, '\n') && c->answer_len < sizeof(c->answer) - 1)
		return 0;
	c->copied = true;
	c->state = strcmp(c->answer, "frozen\n") == 0 ? COMMIT_FROZEN : COMMIT_PAUSED;
	c->rc = copy_paused(c, c->op, c->dir, c->e);
	if (inbox_put(c->in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, &why) < 0)
		inbox_close(c->in, &why);
	return 0;
}

/* The script did not end by itself: it was killed, perhaps while the file systems were frozen. */
static void thaw(struct commit *c, struct guest *g)
{
	const char *argv[] = {"/bin/sh", "-c", qemu_script_freeze, "sh", "thaw", NULL};
	struct op whole = op_for_cleanup(THAW_SECONDS);
	struct guest_exec req = {.argv = argv, .timeout = THAW_SECONDS};
	struct guest_io io = {0};
	struct guest_exit end = {0};
	struct err e;

	if (guest_exec(g, &whole, &req, &io, &end, &e) < 0)
		log_err(c->op, LOG_ERROR, &e, "%s/%s: its file systems may stay frozen", c->b->id,
			c->vm->spec->name);
}

static void run_freezer(struct commit *c, struct guest *g)
{
	const char *argv[] = {"/bin/sh", "-c", qemu_script_freeze, NULL};
	struct op whole = op_within(c->op, FREEZE_SECONDS);
	struct guest_exec req = {.argv = argv, .input = true};
	auto_inbox struct inbox *in = NULL;
	struct guest_io io = {.output = on_answer, .arg = c};
	struct guest_exit end = {0};
	struct err e;

	if (inbox_new(INBOX_MAX, &in, &e) < 0)
		return;
	io.in = c->in = in;
	if (guest_exec(g, &whole, &req, &io, &end, &e) < 0)
		log_err(c->op, LOG_WARN, &e, "%s/%s: freezing", c->b->id, c->vm->spec->name);
	else if (end.stage == GUEST_RAN && end.code == 0)
		return;
	thaw(c, g);
}

/* Returns whether the disk was copied, or could not be: c->rc and e say. Otherwise the guest has no
 * runner, or no shell that would freeze it. */
static bool copy_frozen(struct commit *c, const struct op *op, const char *dir, struct err *e)
{
	struct op soon = op_within(op, LINK_SECONDS);
	struct guest *g;
	struct err why;

	if ((!c->vm->spec->is_sandbox || c->vm->spec->cdrom) &&
		strcmp(links_name(&c->vm->links), "runner") != 0)
		return false;
	op_progress(op, 0, 0, "freezing the file systems of %s", c->vm->spec->name);
	if (links_take(&c->vm->links, &soon, &g, &why) < 0)
		return false;
	c->op = op;
	c->dir = dir;
	c->e = e;
	if (guest_has_runner(g))
		run_freezer(c, g);
	links_give(&c->vm->links, g);
	return c->copied;
}

static int copy_disk(void *arg, const struct op *op, const char *dir, struct err *e)
{
	struct commit *c = arg;
	struct err dead;

	if (qemu_vm_alive(c->vm, &dead) < 0) {
		c->state = COMMIT_OFF;
		return copy_files(c->vm, op, dir, e);
	}
	if (copy_frozen(c, op, dir, e))
		return c->rc;
	if (op_check(op, e) < 0)
		return -1;
	c->state = COMMIT_PAUSED;
	return copy_paused(c, op, dir, e);
}

int qemu_commit(struct driver_sandbox *sandbox, const struct op *op, unsigned i,
	const struct driver_commit *req, struct image **ret, enum commit_state *ret_state,
	struct err *e)
{
	struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;
	struct qemu_vm *vm = &b->vms[i];
	struct commit c = {.b = b, .vm = vm};
	auto_turn struct turn *held = NULL;
	auto_free char *description = NULL;
	struct commit_req whole = {.name = req->name,
		.user = req->user,
		.base = vm->image,
		.layered = vm->template && vm->template->disk,
		.copy = copy_disk,
		.arg = &c};

	if (!vm->image->disk)
		return err_set(e, ERR_UNSUPPORTED,
			"VM %s has no disk: image %s runs from memory. Add files to such an image "
			"by "
			"`files` in the spec, or by a recipe (docs/images.md)",
			vm->spec->name, qemu_source_name(&vm->spec->source));
	if (str_printf(&description, e, "Committed from a VM of %.100s",
		    qemu_source_name(&vm->spec->source)) < 0 ||
		turn_take(&b->saving, op, e) < 0)
		return -1;
	held = &b->saving;
	whole.description = description;
	if (store_commit(b->d->env->store, op, &whole, ret, e) < 0)
		return -1;
	*ret_state = c.state;
	return 0;
}
