#include "driver/qemu/vm/monitor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/qemu/vm/args.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/thread/lock.h"
#include "util/thread/thread.h"
#include "util/system/log.h"
#include "util/system/memory.h"
#include "util/str.h"

enum { LAST_WORDS = 600 };
#define REASON_SECONDS 3.0 /* between the end of a runner and that of a guest that shuts down */
#define END_SECONDS    5.0 /* between the first sign of QEMU's end and the end itself */

/* Moves what can be read into a log; false when the writer has ended. */
static bool drain(int fd, struct caplog *log)
{
	uint8_t piece[4096]; /* small: this thread touches little of its stack otherwise */
	ssize_t n = read(fd, piece, sizeof(piece));

	if (n > 0)
		caplog_add(log, (struct bytes){piece, (size_t)n});
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Moves all that is left after the writer's end. */
static void drain_rest(int fd, struct caplog *log)
{
	uint8_t piece[4096]; /* small: this thread touches little of its stack otherwise */
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) > 0)
		caplog_add(log, (struct bytes){piece, (size_t)n});
}

/* The exit status of the guard, which stays there for proc_kill to reap. */
static int peek_exit(const struct proc *p)
{
	siginfo_t info = {0};

	if (waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOWAIT | WNOHANG) < 0)
		return -1;
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

/* The kernel counts the processes that it kills because memory ran out, but names none. */
static bool died_of_memory(const struct qemu_vm *vm, int code)
{
	return code == 128 + SIGBUS || (code == 128 + SIGKILL && memory_kills() > vm->kills_before);
}

static void describe_end(struct qemu_vm *vm, struct err *ret)
{
	auto_free char *tail = file_tail(vm->backend.path, LAST_WORDS);
	char words[LAST_WORDS];
	int code = peek_exit(&vm->proc);
	size_t n = tail ? strlen(tail) : 0;
	bool no_memory = !vm->ended_because && died_of_memory(vm, code);

	while (n && tail[n - 1] == '\n')
		n--;
	str_escape(tail ? tail : "", n, words, sizeof(words));
	if (vm->ended_because)
		err_set(ret, ERR_UNAVAILABLE, "VM %s was ended: %s", vm->spec->name,
			vm->ended_because);
	else if (vm->guest_shut_down && code == 0)
		err_set(ret, ERR_UNAVAILABLE, "VM %s was shut down from inside", vm->spec->name);
	else if (code > 128)
		err_set(ret, ERR_UNAVAILABLE, "QEMU of VM %s was killed by signal %d%s%s%s",
			vm->spec->name, code - 128,
			no_memory ? ", as the kernel does when memory runs out" : "", n ? ": " : "",
			words);
	else
		err_set(ret, ERR_UNAVAILABLE, "QEMU of VM %s ended with code %d%s%s",
			vm->spec->name, code, n ? ": " : "", words);
	if (no_memory)
		ret->sys = ENOMEM;
}

/* Ends the line whose runner has ended; why: the reason. */
static void cut_off(struct qemu_vm *vm, const char *why)
{
	links_fail(&vm->links, take_ptr(&vm->cut_off), why);
}

/* For poll: how long to wait for the reason of a line's end. */
static int reason_ms(const struct qemu_vm *vm)
{
	int64_t left = vm->cut_off_until - now_ns();

	return !vm->cut_off ? -1 : left > 0 ? (int)(left / 1000000) + 1 : 0;
}

static void note_death(struct qemu_vm *vm)
{
	uint64_t one = 1;
	struct err why;

	drain_rest(vm->stderr_fd, &vm->backend);
	describe_end(vm, &why);
	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		vm->state = VM_DEAD;
		vm->death = why;
	}
	bell_ring(vm->env->changes);
	if (write(vm->dead_fd, &one, sizeof(one)) < 0)
		log_msg(NULL, LOG_ERROR, "%s: cannot tell of a VM's end", vm->sandbox);
	qmp_fail(vm->qmp, &why);
	cut_off(vm, why.msg);
	links_lost(&vm->links, why.msg);
}

/* A closed monitor belongs to a QEMU that is ending: its reason comes with the end. A QEMU that
 * talks nonsense is ended. */
static void lose_qmp(struct qemu_vm *vm, const struct err *why)
{
	if (why->kind == ERR_UNAVAILABLE)
		return;
	caplog_add(&vm->backend, (struct bytes){(const uint8_t *)why->msg, strlen(why->msg)});
	proc_end(&vm->proc);
}

/* VMs whose network is gone would only seem to work. */
static void lose_net(struct qemu_vm *vm)
{
	char reason[500]; /* "" if the network's holder was killed */

	net_end_reason(vm->net, reason, sizeof(reason));
	snprintf(vm->net_reason, sizeof(vm->net_reason), "the sandbox's network ended%s%s",
		reason[0] ? ": " : "", reason);
	vm->ended_because = vm->net_reason;
	proc_end(&vm->proc);
}

static void on_event(void *arg, const char *name, json_t *data)
{
	struct qemu_vm *vm = arg;

	if (strcmp(name, "VSERPORT_CHANGE") == 0) {
		const char *id = json_string_value(json_object_get(data, "id"));

		if (!id || strcmp(id, QEMU_RUNNER_PORT) != 0)
			return;
		/* A kernel that shuts down closes the port, too: the next event tells which it was.
		 */
		cut_off(vm, QEMU_RUNNER_ENDED);
		if (json_is_false(json_object_get(data, "open"))) {
			vm->cut_off = links_detach(&vm->links);
			vm->cut_off_until = now_ns() + (int64_t)(REASON_SECONDS * 1e9);
		}
	} else if (strcmp(name, "RESET") == 0) {
		cut_off(vm, "the VM was reset");
		links_lost(&vm->links, "the VM was reset");
	} else if (strcmp(name, "SHUTDOWN") == 0) {
		vm->guest_shut_down = json_is_true(json_object_get(data, "guest"));
		vm->cut_off_until = now_ns() + (int64_t)(END_SECONDS * 1e9);
	} else if (strcmp(name, "BLOCK_IO_ERROR") == 0 &&
		   json_is_true(json_object_get(data, "nospace"))) {
		/* QEMU has paused the VM. Nobody would ever continue it, so it ends with a reason
		 * instead. No log could take the reason: it would be on the same disk. */
		vm->ended_because = "the host's disk is full";
		proc_end(&vm->proc);
	}
}

enum { AT_STOP, AT_END, AT_QMP, AT_CONSOLE, AT_STDERR, AT_NET, AT_COUNT };

static void *watch(void *arg)
{
	struct qemu_vm *vm = arg;
	struct pollfd fds[AT_COUNT] = {
		[AT_STOP] = {.fd = vm->stop_fd, .events = POLLIN},
		[AT_END] = {.fd = vm->proc.pidfd, .events = POLLIN},
		[AT_QMP] = {.fd = vm->qmp_fd, .events = POLLIN},
		[AT_CONSOLE] = {.fd = vm->console_fd, .events = POLLIN},
		[AT_STDERR] = {.fd = vm->stderr_fd, .events = POLLIN},
		[AT_NET] = {.fd = vm->net ? net_end_fd(vm->net) : -1, .events = POLLIN},
	};
	struct err e;

	for (;;) {
		if (poll(fds, AT_COUNT, reason_ms(vm)) < 0 && errno != EINTR)
			break;
		if (fds[AT_QMP].revents && qmp_readable(vm->qmp, &e) < 0) {
			fds[AT_QMP].fd = -1;
			lose_qmp(vm, &e);
		}
		if (fds[AT_CONSOLE].revents && !drain(vm->console_fd, &vm->console))
			fds[AT_CONSOLE].fd = -1;
		if (fds[AT_STDERR].revents && !drain(vm->stderr_fd, &vm->backend))
			fds[AT_STDERR].fd = -1;
		if (fds[AT_NET].revents) {
			fds[AT_NET].fd = -1;
			lose_net(vm);
		}
		if (fds[AT_END].revents) {
			note_death(vm);
			break;
		}
		if (fds[AT_STOP].revents)
			break;
		if (reason_ms(vm) == 0)
			cut_off(vm, QEMU_RUNNER_ENDED);
	}
	cut_off(vm, QEMU_RUNNER_ENDED);
	return NULL;
}

int qemu_monitor_start(struct qemu_vm *vm, struct err *e)
{
	vm->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	vm->dead_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vm->stop_fd < 0 || vm->dead_fd < 0)
		return err_sys(e, errno, "eventfd");
	if (qmp_new(vm->qmp_fd, on_event, vm, &vm->qmp, e) < 0)
		return -1;
	if (thread_start(&vm->monitor, "vm-monitor", watch, vm, e) < 0)
		return -1;
	vm->monitor_runs = true;
	return 0;
}

void qemu_monitor_stop(struct qemu_vm *vm)
{
	uint64_t one = 1;

	if (!vm->monitor_runs)
		return;
	if (write(vm->stop_fd, &one, sizeof(one)) < 0)
		log_msg(NULL, LOG_WARN, "%s: cannot stop a monitor", vm->sandbox);
	thread_join(vm->monitor);
	vm->monitor_runs = false;
}
