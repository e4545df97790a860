/*
 * How it works: the guest agent answers first; through it the runner is put into the guest and
 * started on a port of its own, and from then on the line to the runner is the way in. When the
 * line fails (the runner was killed, the VM was reset), the next operation makes a new one. Where
 * the runner cannot run, the agent itself is the way.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "driver/qemu-vm.h"
#include "guest/agent.h"
#include "guest/install.h"
#include "guest/line.h"
#include "util/auto.h"
#include "util/lock.h"
#include "util/log.h"

#define ANSWER_SECONDS  10.0 /* for one that was just started, before it is started again */
#define WAITING_SECONDS 60.0 /* for a runner that is known to be there; a host may be slow */

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

static int start_and_greet(
	struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	struct op soon = op_within(op, ANSWER_SECONDS);
	/* The line owns its fd, and there may be another line after it. */
	int fd = fcntl(vm->runner_fd, F_DUPFD_CLOEXEC, 0);

	if (runner_start(op, vm->qga, vm->env->runner_path, e) < 0 ||
		line_open(&soon, fd, ret, e) < 0) {
		close(fd);
		return -1;
	}
	return 0;
}

static int open_line(struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	if (!vm->env->runner_path)
		return err_set(e, ERR_UNSUPPORTED, "moat-guest is not installed beside moat");
	while (start_and_greet(vm, op, ret, e) < 0)
		/* Whoever has the port may not be the runner, and may be gone the next time. */
		if (e->kind != ERR_TIMEOUT || op_check(op, &(struct err){0}) < 0)
			return -1;
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
	if (vm->runner_waits && open_waiting_line(vm, op, ret, e) == 0)
		return 0;
	if (sync_agent(vm, op, e) < 0)
		return -1;
	if (!vm->windows) {
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
	return agent_open(vm->qga, vm->windows, ret, e);
}

static int alive(void *arg, struct err *e)
{
	return qemu_vm_alive(arg, e);
}

static int open_way(
	void *arg, const struct op *op, struct guest **ret, void **ret_below, struct err *e)
{
	struct qemu_vm *vm = arg;

	*ret_below = NULL;
	if (open_guest(vm, op, ret, e) < 0)
		return qemu_vm_explain(vm, e);
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
	if (vm->state == BOX_VM_STARTING)
		vm->state = BOX_VM_RUNNING;
	return 0;
}

const struct ways_ops qemu_ways = {.alive = alive, .open = open_way};
