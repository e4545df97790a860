/*
 * How it works: the guest agent answers first; through it the runner is put into the guest and
 * started on a port of its own, and from then on the line to the runner is the link. When the line
 * fails (the runner was killed, the VM was reset), the next operation opens a new one, on the same
 * port: the old line lets go of it first. Where the runner cannot run, the link goes over the agent
 * itself. VMs that are made of container images have our init, which starts the runner.
 */
#include "driver/qemu/vm/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/qemu/vm/monitor.h"
#include "driver/qemu/vm/vm.h"
#include "guestlink/agent/agent.h"
#include "guestlink/agent/install.h"
#include "guestlink/line/line.h"
#include "util/auto.h"
#include "util/thread/lock.h"
#include "util/system/log.h"

#define ANSWER_SECONDS  10.0 /* for a runner that was just started, until it is started again */
#define WAITING_SECONDS 60.0 /* for a runner that is there already; a host may be slow */
/* A guest that runs answers sooner than one that boots. */
#define PATIENCE_PART 5.0
#define PATIENCE_MIN  30.0

/* How many seconds the guest may be silent while something waits for it. */
static double patience_with(const struct qemu_vm *vm)
{
	double patience = vm->env->boot_timeout / PATIENCE_PART;

	return patience > PATIENCE_MIN ? patience : PATIENCE_MIN;
}

static int sync_agent(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	if (!vm->qga && qga_open(vm->agent_fd, &vm->qga, e) < 0)
		return -1;
	qga_set_patience(vm->qga, patience_with(vm));
	if (qga_sync(vm->qga, op, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT)
		err_wrap(e, "the guest agent of VM %s does not answer", vm->spec->name);
	return qemu_vm_explain(vm, e);
}

/* An old line can have ended in the middle of a frame. The same runner would take a greeting for
 * the rest of that frame, so the true rest goes first; a new runner skips it. */
static int send_unsent(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	while (vm->unsent.len) {
		ssize_t n = send(vm->runner_fd, buf_data(&vm->unsent), vm->unsent.len,
			MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, errno, "the runner's port");
		if (n > 0)
			buf_drop(&vm->unsent, (size_t)n);
		else if (op_wait_fd(op, vm->runner_fd, POLLOUT, e) < 0)
			return -1;
	}
	if (buf_check(&vm->unsent, e) == 0)
		return 0;
	buf_free(&vm->unsent);
	return -1;
}

/*
 * A line owns its fd, and there may be another line to this runner later: so it gets a copy. An old
 * line may still wait for the reason of its end: a guest that shuts down ends its runner first. Now
 * a runner is there, so that was no shutdown.
 */
static int greet(
	struct qemu_vm *vm, const struct op *op, double seconds, struct guest **ret, struct err *e)
{
	auto_fd int fd = fcntl(vm->runner_fd, F_DUPFD_CLOEXEC, 0);
	struct op soon = op_within(op, seconds);

	if (fd < 0)
		return err_sys(e, errno, "the runner's port");
	if (links_part(&vm->links, &soon, QEMU_RUNNER_ENDED, &vm->unsent, e) < 0 ||
		send_unsent(vm, &soon, e) < 0)
		return -1;
	if (line_open(&soon, fd, patience_with(vm), ret, e) < 0)
		return -1;
	(void)take_fd(&fd);
	return 0;
}

static int start_and_greet(struct qemu_vm *vm, const struct op *op, const char *runner_path,
	struct guest **ret, struct err *e)
{
	if (runner_start(op, vm->qga, runner_path, e) < 0)
		return -1;
	return greet(vm, op, ANSWER_SECONDS, ret, e);
}

static int open_line(struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	const char *path = runners_for(&vm->env->runners, vm->image->arch, e);

	if (!path)
		return -1;
	while (start_and_greet(vm, op, path, ret, e) < 0)
		/* The program that has the port may not be a runner, and may be gone the next time.
		 */
		if (e->kind != ERR_TIMEOUT || op_check(op, &(struct err){0}) < 0)
			return -1;
	return 0;
}

/* The runner was in the memory that the VM started with: no need for the agent to start it. */
static int open_waiting_line(
	struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	vm->runner_waits = false; /* the next line will have to start one */
	return greet(vm, op, WAITING_SECONDS, ret, e);
}

/* Where our init is process 1 there is no agent. The runner is started at boot, and again whenever
 * it ends: it only has to be waited for. */
static int open_inits_line(
	struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	struct op boot = op_within(op, vm->env->boot_timeout);

	vm->runner_waits = false;
	while (greet(vm, &boot, WAITING_SECONDS, ret, e) < 0)
		/* A runner that was killed does not hear the greeting. */
		if (e->kind != ERR_TIMEOUT || op_check(&boot, &(struct err){0}) < 0)
			return err_wrap(e, "the runner of VM %s", vm->spec->name);
	return 0;
}

static int open_guest(struct qemu_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	if (vm->image->container)
		return open_inits_line(vm, op, ret, e);
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

static int open_link(
	void *arg, const struct op *op, struct guest **ret, void **ret_below, struct err *e)
{
	struct qemu_vm *vm = arg;

	*ret_below = NULL;
	if (open_guest(vm, op, ret, e) < 0)
		return qemu_vm_explain(vm, e);
	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		if (vm->state == VM_STARTING)
			vm->state = VM_RUNNING;
	}
	bell_ring(vm->env->changes);
	return 0;
}

const struct guest_links_ops qemu_links = {.alive = alive, .open = open_link};
