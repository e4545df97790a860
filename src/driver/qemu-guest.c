/*
 * How it works: the guest agent answers first; through it the runner is put into the guest and
 * started on a port of its own, and from then on the line to the runner is the way in. When the
 * line fails (the runner was killed, the VM was reset), the next operation makes a new one. Where
 * the runner cannot run, the agent itself is the way.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/qemu-vm.h"
#include "guest/agent.h"
#include "guest/install.h"
#include "guest/line.h"
#include "util/auto.h"
#include "util/lock.h"
#include "util/log.h"

#define WAITING_SECONDS 60.0 /* for a runner that is known to be there; a host may be slow */

/* Wants vm->mu held. A way that is neither current nor in use leaves the list; the caller frees it
 * after unlocking. */
static struct way *unlink_unused_locked(struct qemu_vm *vm)
{
	for (struct way **at = &vm->ways; *at; at = &(*at)->next) {
		struct way *w = *at;

		if (w->refs == 0 && w != vm->current) {
			*at = w->next;
			return w;
		}
	}
	return NULL;
}

static void free_unused(struct qemu_vm *vm)
{
	struct way *w;

	for (;;) {
		{
			auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
			w = unlink_unused_locked(vm);
		}
		if (!w)
			return;
		guest_free(w->guest);
		free(w);
	}
}

static bool is_line(const struct guest *g)
{
	return strcmp(guest_way(g), "runner") == 0;
}

static bool usable(const struct way *w)
{
	return w && !(is_line(w->guest) && line_failed(w->guest));
}

/* 1: taken; 0: there is none; -1: the VM is dead. */
static int take_current(struct qemu_vm *vm, struct guest **ret, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);

	if (vm->state == BOX_VM_DEAD) {
		*e = vm->death;
		return -1;
	}
	if (!usable(vm->current)) {
		vm->current = NULL;
		return 0;
	}
	vm->current->refs++;
	*ret = vm->current->guest;
	return 1;
}

static int sync_agent(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	if (!vm->qga && qga_open(vm->agent_fd, &vm->qga, e) < 0)
		return -1;
	if (qga_sync(vm->qga, op, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT)
		err_wrap(e, "the guest agent of VM %s does not answer", vm->spec->name);
	return qemu_vm_explain(vm, e);
}

static int open_line(struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	/* The line owns its fd, and there may be another line after it. */
	int fd = fcntl(vm->runner_fd, F_DUPFD_CLOEXEC, 0);

	if (!vm->env->runner_path) {
		close(fd);
		return err_set(e, ERR_UNSUPPORTED, "moat-guest is not installed beside moat");
	}
	if (runner_start(op, vm->qga, vm->env->runner_path, e) < 0 ||
		line_open(op, fd, ret, e) < 0) {
		close(fd);
		return -1;
	}
	return 0;
}

/* The runner was in the memory that the VM started with: no need for the agent to start it. */
static int open_waiting_line(
	struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	struct op soon = op_within(op, WAITING_SECONDS);
	int fd = fcntl(vm->runner_fd, F_DUPFD_CLOEXEC, 0);

	vm->runner_waits = false; /* but the next time it has to be asked for */
	if (line_open(&soon, fd, ret, e) == 0)
		return 0;
	close(fd);
	return -1;
}

static int open_guest(struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	bool windows = spec_os_is_windows(vm->spec->os_type);

	if (vm->runner_waits && open_waiting_line(vm, op, ret, e) == 0)
		return 0;
	if (sync_agent(vm, op, e) < 0)
		return -1;
	if (!windows) {
		if (open_line(vm, op, ret, e) == 0)
			return 0;
		if (e->kind != ERR_UNSUPPORTED)
			return err_wrap(e, "VM %s", vm->spec->name);
		if (!vm->said_fallback)
			log_err(op, LOG_WARN, e,
				"%s/%s: the runner cannot run, using the plain guest agent",
				vm->sandbox, vm->spec->name);
		vm->said_fallback = true;
	}
	return agent_open(vm->qga, windows, ret, e);
}

static int install_way(struct qemu_vm *vm, struct guest *g, struct err *e)
{
	struct way *w = calloc(1, sizeof(*w));
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);

	if (!w)
		return err_oom(e);
	*w = (struct way){.guest = g, .refs = 1, .next = vm->ways};
	vm->ways = vm->current = w;
	if (vm->state == BOX_VM_STARTING)
		vm->state = BOX_VM_RUNNING;
	return 0;
}

int qemu_guest_take(struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	auto_turn struct turn *held = NULL;
	struct guest *g;
	int got = take_current(vm, ret, e);

	if (got)
		return got < 0 ? -1 : 0;
	if (turn_take(&vm->opening, op, e) < 0)
		return -1;
	held = &vm->opening;
	got = take_current(vm, ret, e); /* somebody else may have opened it while we waited */
	if (got)
		return got < 0 ? -1 : 0;
	free_unused(vm);
	if (open_guest(vm, op, &g, e) < 0)
		return qemu_vm_explain(vm, e);
	if (install_way(vm, g, e) < 0) {
		guest_free(g);
		return -1;
	}
	*ret = g;
	return 0;
}

void qemu_guest_give(struct qemu_vm *vm, struct guest *g)
{
	{
		auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
		for (struct way *w = vm->ways; w; w = w->next)
			if (w->guest == g)
				w->refs--;
	}
	free_unused(vm);
}

void qemu_guest_lost(struct qemu_vm *vm, const char *why)
{
	struct guest *g = NULL;

	{
		auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
		if (vm->current && is_line(vm->current->guest)) {
			vm->current->refs++;
			g = vm->current->guest;
			vm->current = NULL;
		}
	}
	if (!g)
		return;
	line_fail(g, why);
	qemu_guest_give(vm, g);
}
