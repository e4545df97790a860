#include "driver/vagrant/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/vagrant/spec.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/thread/thread.h"

#define UP_GRACE       60.0 /* seconds for an interrupted `up` to destroy what it has made */
#define SNAPSHOT_GRACE 30.0

/* ---- up ---- */

/* A thread that connects to one machine while Vagrant is still busy with it or with others. */
struct connector {
	pthread_t thread;
	struct op op;
	int ended; /* eventfd, readable when the thread has ended: a join cannot be cancelled */
	struct vagrant_vm *vm;
};

struct going_up {
	struct vagrant_sandbox *b;
	const struct op *op;
	struct connector connectors[VAGRANT_MACHINES_MAX];
	unsigned n_connectors;
};

static void *connect_main(void *arg)
{
	struct connector *w = arg;
	struct guest *g;
	struct err ignored; /* vagrant_sandbox_ready tries again */

	if (links_take(&w->vm->links, &w->op, &g, &ignored) == 0)
		links_give(&w->vm->links, g);
	eventfd_write(w->ended, 1);
	return NULL;
}

static void start_connecting(struct going_up *a, struct vagrant_vm *vm)
{
	struct connector *w = &a->connectors[a->n_connectors];
	auto_fd int ended = -1;
	struct err ignored;

	if (a->n_connectors == VAGRANT_MACHINES_MAX)
		return;
	ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ended < 0 || op_init(&w->op, a->op->id, vm->boot_timeout, &ignored) < 0)
		return;
	w->vm = vm;
	w->ended = ended;
	if (thread_start(&w->thread, "vagrant-connect", connect_main, w, &ignored) < 0) {
		op_done(&w->op);
		return;
	}
	take_fd(&ended);
	a->n_connectors++;
}

/* Waits for the connections that will be needed at once, and cancels the others: a machine that is
 * not for commands may have no SSH at all. */
static void finish_connecting(struct going_up *a, bool cancel)
{
	struct err ignored;

	for (unsigned i = 0; i < a->n_connectors; i++) {
		struct connector *w = &a->connectors[i];

		if (cancel || !w->vm->for_commands ||
			op_wait_fd(a->op, w->ended, POLLIN, &ignored) < 0)
			op_cancel(&w->op);
	}
	for (unsigned i = 0; i < a->n_connectors; i++) {
		struct connector *w = &a->connectors[i];

		thread_join(w->thread);
		op_done(&w->op);
		close(w->ended);
	}
	a->n_connectors = 0;
}

/* A machine's name as users know it: without what INSPECT_VM_SUFFIX put behind it. */
static void user_name(
	const struct vagrant_sandbox *b, const char *machine, char out[VAGRANT_NAME_MAX])
{
	char suffix[40];

	snprintf(out, VAGRANT_NAME_MAX, "%s", machine);
	snprintf(suffix, sizeof(suffix), "-%s", b->id);
	if (str_ends(out, suffix) && strlen(out) > strlen(suffix))
		out[strlen(out) - strlen(suffix)] = 0;
}

static struct vagrant_vm *find_vm(struct vagrant_sandbox *b, const char *machine)
{
	for (unsigned i = 0; i < b->n_vms; i++)
		if (strcmp(b->vms[i]->machine, machine) == 0)
			return b->vms[i];
	return NULL;
}

static struct vagrant_vm *add_vm(
	struct vagrant_sandbox *b, const struct vagrant_machine *m, struct err *e)
{
	struct vagrant_vm *vm = calloc(1, sizeof(*vm));
	char name[VAGRANT_NAME_MAX];

	if (!vm) {
		err_oom(e);
		return NULL;
	}
	vm->dir = &b->dir;
	vm->runners = &b->d->env->runners;
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
	struct going_up *a = arg;
	struct err ignored;

	if (r->progress[0])
		op_progress(a->op, 0, 0, "%s", r->progress);
	for (unsigned i = 0; i < r->n_machines; i++) {
		const struct vagrant_machine *m = &r->machines[i];
		struct vagrant_vm *vm = find_vm(a->b, m->name);

		if (!m->ssh.port)
			continue;
		if (vm) {
			vagrant_vm_told(vm, &m->ssh); /* Vagrant may have given it a key since */
			continue;
		}
		vm = add_vm(a->b, m, &ignored);
		if (vm)
			start_connecting(a, vm);
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

/* A Vagrantfile may refer to files beside it, which are not copied unless somebody says so. */
static void name_vagrant_dir(const struct vagrant_sandbox *b, struct err *e)
{
	static const char *const signs[] = {"o such file", "does not exist", "doesn't exist",
		"does not appear to exist", "cannot load such file"};
	char said[sizeof(e->msg)];

	memcpy(said, e->msg, sizeof(said));
	if (b->want.dir || strstr(said, "log above")) /* that a command in the guest said */
		return;
	for (unsigned i = 0; i < ARRAY_LEN(signs); i++) {
		if (!strstr(said, signs[i]))
			continue;
		snprintf(e->msg, sizeof(e->msg),
			"%.800s (only the Vagrantfile was copied: for files beside it set "
			"vagrant_dir, or `moat up DIR/`)",
			said);
		return;
	}
}

int vagrant_sandbox_up(struct vagrant_sandbox *b, const struct op *op,
	const struct sandbox_request *req, struct err *e)
{
	auto_free struct going_up *a = calloc(1, sizeof(*a));
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
	if (rc < 0)
		name_vagrant_dir(b, e);
	if (rc == 0)
		rc = check_machines(b->report, e);
	for (unsigned i = 0; rc == 0 && i < b->report->n_machines; i++)
		if (!find_vm(b, b->report->machines[i].name) &&
			!add_vm(b, &b->report->machines[i], e))
			rc = -1;
	if (rc == 0)
		rc = vagrant_sandbox_spec(b, op, req->spec, e);
	for (unsigned i = 0; i < b->n_vms; i++)
		vagrant_vm_made(b->vms[i]);
	finish_connecting(a, rc < 0);
	return rc < 0 ? -1 : op_check(op, e);
}

int vagrant_sandbox_ready(struct vagrant_sandbox *b, const struct op *op, struct err *e)
{
	for (unsigned i = 0; i < b->n_vms; i++) {
		struct vagrant_vm *vm = b->vms[i];
		struct guest *g;

		vagrant_vm_revive(vm); /* it may have seemed dead while it was being made */
		vagrant_vm_keep_ssh_config(vm, op);
		if (!b->spec->vms[i].is_sandbox)
			continue;
		op_progress(op, i, b->n_vms, "connecting to %s", vm->name);
		if (links_take(&vm->links, op, &g, e) < 0)
			return -1;
		links_give(&vm->links, g);
	}
	return op_check(op, e); /* taking a link that is there already does not look at op */
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

/* Keeps everybody from connecting while the machines are being saved or restored: a connection that
 * is saved would be dead when it is restored. */
static int take_turns(
	struct vagrant_sandbox *b, const struct op *op, unsigned *taken, struct err *e)
{
	for (; *taken < b->n_vms; ++*taken)
		if (turn_take(&b->vms[*taken]->links.opening, op, e) < 0)
			return -1;
	for (unsigned i = 0; i < b->n_vms; i++)
		links_lost(&b->vms[i]->links, "the connection was closed for a snapshot");
	return 0;
}

static int run_snapshot(struct vagrant_sandbox *b, const struct op *op, const char *name,
	bool restore, struct err *e)
{
	const char *const save_argv[] = {"snapshot", "save", "--force", name, NULL};
	const char *const back_argv[] = {"snapshot", "restore", "--no-provision", name, NULL};
	struct vagrant_run run = {.argv = restore ? back_argv : save_argv,
		.what = restore ? "vagrant snapshot restore" : "vagrant snapshot save",
		.interrupt_grace = SNAPSHOT_GRACE};

	if (vagrant_run(&b->dir, op, &run, b->report, e) < 0)
		return -1;
	/* Vagrant reports no error for a machine that it does not find. */
	for (unsigned i = 0; i < b->n_vms; i++) {
		struct vagrant_machine *m = vagrant_report_machine(b->report, b->vms[i]->machine);

		if (!m || !m->actions)
			return err_set(e, ERR_BACKEND, "%s: nothing was done for VM %s", run.what,
				b->vms[i]->name);
	}
	for (unsigned i = 0; restore && i < b->n_vms; i++)
		vagrant_vm_revive(b->vms[i]); /* a machine that was off runs again */
	return 0;
}

static int after_restore(struct vagrant_sandbox *b, const struct op *op, struct err *e)
{
	for (unsigned i = 0; i < b->n_vms; i++)
		if (b->vms[i]->for_commands && vagrant_guest_set_clock(b->vms[i], op, e) < 0)
			return -1;
	return 0;
}

int vagrant_sandbox_snapshot(struct vagrant_sandbox *b, const struct op *op, const char *name,
	bool restore, struct err *e)
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
		turn_give(&b->vms[--taken]->links.opening);
	return rc == 0 && restore ? after_restore(b, op, e) : rc;
}
