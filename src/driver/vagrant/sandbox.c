#include "driver/vagrant-box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"

#define UP_GRACE       60.0 /* seconds for an interrupted `up` to destroy what it has made */
#define SNAPSHOT_GRACE 30.0

/* ---- up ---- */

/* Connects to one machine while Vagrant is still busy with it or with others. */
struct warmer {
	pthread_t thread;
	struct op op;
	int ended; /* eventfd, readable when it has: a join cannot be cancelled */
	struct vagrant_vm *vm;
};

struct ascent {
	struct vagrant_box *b;
	const struct op *op;
	struct warmer warmers[VAGRANT_MACHINES_MAX];
	unsigned n_warmers;
};

static void *warm_main(void *arg)
{
	struct warmer *w = arg;
	struct guest *g;
	struct err ignored; /* it will be tried again, when Vagrant has finished */

	pthread_setname_np(pthread_self(), "moat-vagrant");
	if (ways_take(&w->vm->ways, &w->op, &g, &ignored) == 0)
		ways_give(&w->vm->ways, g);
	eventfd_write(w->ended, 1);
	return NULL;
}

static void warm_up(struct ascent *a, struct vagrant_vm *vm)
{
	struct warmer *w = &a->warmers[a->n_warmers];
	auto_fd int ended = -1;
	struct err ignored;

	if (a->n_warmers == VAGRANT_MACHINES_MAX)
		return;
	ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ended < 0 || op_init(&w->op, a->op->id, vm->boot_timeout, &ignored) < 0)
		return;
	w->vm = vm;
	w->ended = ended;
	if (pthread_create(&w->thread, NULL, warm_main, w)) {
		op_done(&w->op);
		return;
	}
	take_fd(&ended);
	a->n_warmers++;
}

/* Lets those finish whose machines will be wanted at once. A machine that nobody will enter may
 * have no SSH at all. */
static void cool_down(struct ascent *a, bool cancel)
{
	struct err ignored;

	for (unsigned i = 0; i < a->n_warmers; i++) {
		struct warmer *w = &a->warmers[i];

		if (cancel || !w->vm->for_commands ||
			op_wait_fd(a->op, w->ended, POLLIN, &ignored) < 0)
			op_cancel(&w->op);
	}
	for (unsigned i = 0; i < a->n_warmers; i++) {
		struct warmer *w = &a->warmers[i];

		pthread_join(w->thread, NULL);
		op_done(&w->op);
		close(w->ended);
	}
	a->n_warmers = 0;
}

/* As users know it: without what INSPECT_VM_SUFFIX put behind it. */
static void user_name(const struct vagrant_box *b, const char *machine, char out[VAGRANT_NAME_MAX])
{
	char suffix[40];

	snprintf(out, VAGRANT_NAME_MAX, "%s", machine);
	snprintf(suffix, sizeof(suffix), "-%s", b->id);
	if (str_ends(out, suffix) && strlen(out) > strlen(suffix))
		out[strlen(out) - strlen(suffix)] = 0;
}

static struct vagrant_vm *find_vm(struct vagrant_box *b, const char *machine)
{
	for (unsigned i = 0; i < b->n_vms; i++)
		if (strcmp(b->vms[i]->machine, machine) == 0)
			return b->vms[i];
	return NULL;
}

static struct vagrant_vm *add_vm(
	struct vagrant_box *b, const struct vagrant_machine *m, struct err *e)
{
	struct vagrant_vm *vm = calloc(1, sizeof(*vm));
	char name[VAGRANT_NAME_MAX];

	if (!vm) {
		err_oom(e);
		return NULL;
	}
	vm->dir = &b->dir;
	vm->runner_path = b->d->env->runner_path;
	vm->ssh_path = b->d->env->ssh_path;
	vm->boot_timeout = b->d->env->boot_timeout;
	user_name(b, m->name, name);
	if (vagrant_vm_init(vm, m, name, e) < 0) {
		vagrant_vm_free(vm);
		free(vm);
		return NULL;
	}
	b->vms[b->n_vms++] = vm;
	return vm;
}

static void on_news(void *arg, struct vagrant_report *r)
{
	struct ascent *a = arg;
	struct err ignored;

	if (r->progress[0])
		op_progress(a->op, 0, 0, "%s", r->progress);
	for (unsigned i = 0; i < r->n_machines; i++) {
		const struct vagrant_machine *m = &r->machines[i];
		struct vagrant_vm *vm = find_vm(a->b, m->name);

		if (!m->ssh.port)
			continue;
		if (vm) {
			vagrant_vm_told(vm, &m->ssh); /* it may have got a key of its own since */
			continue;
		}
		vm = add_vm(a->b, m, &ignored);
		if (vm)
			warm_up(a, vm);
	}
}

static int check_machines(const struct vagrant_report *r, struct err *e)
{
	if (r->too_many)
		return err_set(e, ERR_LIMIT,
			"the Vagrantfile has more than %d machines, or names that are too long",
			VAGRANT_MACHINES_MAX);
	if (!r->n_machines)
		return err_set(e, ERR_INVALID, "the Vagrantfile starts no machine");
	return 0;
}

int vagrant_box_up(
	struct vagrant_box *b, const struct op *op, const struct box_request *req, struct err *e)
{
	auto_free struct ascent *a = calloc(1, sizeof(*a));
	const char *argv[] = {"up", "--provider", b->want.provider, NULL};
	struct vagrant_run run = {.argv = argv,
		.what = "vagrant up",
		.interrupt_grace = UP_GRACE,
		.news = on_news,
		.arg = a};
	int rc;

	if (!a)
		return err_oom(e);
	a->b = b;
	a->op = op;
	if (!b->want.provider)
		argv[1] = NULL;
	rc = vagrant_run(&b->dir, op, &run, b->report, e);
	if (rc == 0)
		rc = check_machines(b->report, e);
	for (unsigned i = 0; rc == 0 && i < b->report->n_machines; i++)
		if (!find_vm(b, b->report->machines[i].name) &&
			!add_vm(b, &b->report->machines[i], e))
			rc = -1;
	if (rc == 0)
		rc = vagrant_box_spec(b, op, req->spec, e);
	for (unsigned i = 0; i < b->n_vms; i++)
		vagrant_vm_made(b->vms[i]);
	cool_down(a, rc < 0);
	return rc < 0 ? -1 : op_check(op, e);
}

int vagrant_box_ready(struct vagrant_box *b, const struct op *op, struct err *e)
{
	for (unsigned i = 0; i < b->n_vms; i++) {
		struct vagrant_vm *vm = b->vms[i];
		struct guest *g;

		vagrant_vm_revive(vm); /* what was seen of it while it was made does not count */
		vagrant_ssh_keep(vm, op);
		if (!b->spec->vms[i].is_sandbox)
			continue;
		op_progress(op, i, b->n_vms, "connecting to %s", vm->name);
		if (ways_take(&vm->ways, op, &g, e) < 0)
			return -1;
		ways_give(&vm->ways, g);
	}
	return op_check(op, e); /* a connection that was there already has asked nobody */
}

/* ---- snapshots ---- */

static int check_snapshot_name(const char *name, struct err *e)
{
	size_t len =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	if (!len || name[len] || name[0] == '-' || len > 64)
		return err_set(e, ERR_INVALID,
			"a snapshot's name has up to 64 letters, digits, dots, hyphens");
	return 0;
}

/* Nobody connects while the machines are being saved or put back: a saved connection would be a
 * dead one when it is restored. */
static int take_turns(struct vagrant_box *b, const struct op *op, unsigned *taken, struct err *e)
{
	for (; *taken < b->n_vms; ++*taken)
		if (turn_take(&b->vms[*taken]->ways.opening, op, e) < 0)
			return -1;
	for (unsigned i = 0; i < b->n_vms; i++)
		ways_lost(&b->vms[i]->ways, "the connection was closed for a snapshot");
	return 0;
}

static int run_snapshot(
	struct vagrant_box *b, const struct op *op, const char *name, bool restore, struct err *e)
{
	const char *const save_argv[] = {"snapshot", "save", "--force", name, NULL};
	const char *const back_argv[] = {"snapshot", "restore", "--no-provision", name, NULL};
	struct vagrant_run run = {.argv = restore ? back_argv : save_argv,
		.what = restore ? "vagrant snapshot restore" : "vagrant snapshot save",
		.interrupt_grace = SNAPSHOT_GRACE};

	if (vagrant_run(&b->dir, op, &run, b->report, e) < 0)
		return -1;
	/* For a machine that it does not find, Vagrant does nothing, and is content. */
	for (unsigned i = 0; i < b->n_vms; i++) {
		struct vagrant_machine *m = vagrant_report_machine(b->report, b->vms[i]->machine);

		if (!m || !m->actions)
			return err_set(e, ERR_BACKEND, "%s: nothing was done for VM %s", run.what,
				b->vms[i]->name);
	}
	for (unsigned i = 0; restore && i < b->n_vms; i++)
		vagrant_vm_revive(b->vms[i]); /* one that was off runs again */
	return 0;
}

static int after_restore(struct vagrant_box *b, const struct op *op, struct err *e)
{
	for (unsigned i = 0; i < b->n_vms; i++)
		if (b->vms[i]->for_commands && vagrant_guest_set_clock(b->vms[i], op, e) < 0)
			return -1;
	return 0;
}

int vagrant_box_snapshot(
	struct vagrant_box *b, const struct op *op, const char *name, bool restore, struct err *e)
{
	auto_turn struct turn *held = NULL;
	unsigned taken = 0;
	int rc;

	if (check_snapshot_name(name, e) < 0 || turn_take(&b->whole, op, e) < 0)
		return -1;
	held = &b->whole;
	rc = take_turns(b, op, &taken, e);
	if (rc == 0)
		rc = run_snapshot(b, op, name, restore, e);
	while (taken)
		turn_give(&b->vms[--taken]->ways.opening);
	return rc == 0 && restore ? after_restore(b, op, e) : rc;
}
