/*
 * How it works: the first operation opens an SSH connection and starts the runner over it. From
 * then on the line to the runner is the link that all share. When it fails (the guest was rebooted,
 * sshd was killed), the next operation makes a new one, asking Vagrant again where the machine is
 * if need be.
 */
#include "driver/vagrant/vm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/vagrant/ssh-config.h"
#include "guestlink/line/line.h"
#include "driver/vagrant/ssh/process.h"
#include "util/auto.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/str.h"

#define AGAIN         1.0 /* seconds between attempts to connect */
#define SOON          0.5 /* between attempts while Vagrant is still making the machine */
#define SOON_SECONDS  10.0
#define RUNNER_S      120.0
#define CLOCK_SECONDS 30.0

/* ---- a machine's life ---- */

int vagrant_vm_init(
	struct vagrant_vm *vm, const struct vagrant_machine *m, const char *name, struct err *e)
{
	lock_init(&vm->mu, "vagrant_vm.mu", LOCK_LEAF);
	vm->being_made = true;
	vm->ssh = m->ssh;
	memcpy(vm->provider, m->provider, sizeof(vm->provider));
	links_init(&vm->links, &vagrant_links, vm);
	if (str_dup(m->name, &vm->machine, e) < 0 || str_dup(name, &vm->name, e) < 0)
		return -1;
	return vagrant_ssh_alias(vm->dir, name, &vm->alias, e);
}

void vagrant_vm_free(struct vagrant_vm *vm)
{
	links_done(&vm->links);
	lock_done(&vm->mu);
	free(vm->machine);
	free(vm->name);
	free(vm->alias);
}

void vagrant_vm_told(struct vagrant_vm *vm, const struct vagrant_ssh *ssh)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	vm->ssh = *ssh;
}

void vagrant_vm_made(struct vagrant_vm *vm)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	vm->being_made = false;
}

void vagrant_vm_revive(struct vagrant_vm *vm)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	if (vm->state == VM_DEAD)
		vm->state = VM_STARTING;
}

void vagrant_vm_keep_ssh_config(struct vagrant_vm *vm, const struct op *op)
{
	struct vagrant_ssh ssh;
	struct err e;

	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		ssh = vm->ssh;
	}
	if (vagrant_ssh_config_write(vm->dir, vm->alias, &ssh, &e) < 0)
		log_err(op, LOG_WARN, &e, "%s: no configuration for ssh", vm->name);
}

/* ---- connecting ---- */

static void set_dead(struct vagrant_vm *vm, const struct err *why)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	vm->state = VM_DEAD;
	vm->death = *why;
}

/* How to reach the machine, and which host key it must have: any ("") while it is being made, as it
 * may still make its own. */
static struct vagrant_ssh ssh_of(struct vagrant_vm *vm, char host_key[SSH_HOST_KEY_MAX])
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	snprintf(host_key, SSH_HOST_KEY_MAX, "%s", vm->being_made ? "" : vm->host_key);
	return vm->ssh;
}

/* Asks Vagrant how the machine is reached. A machine that is not running is dead. */
static int ask_vagrant(struct vagrant_vm *vm, const struct op *op, struct err *e)
{
	const char *const argv[] = {"ssh-config", vm->machine, NULL};
	struct vagrant_run run = {.argv = argv, .what = "vagrant ssh-config"};
	auto_free struct vagrant_report *report = calloc(1, sizeof(*report));
	struct vagrant_machine *m;

	if (!report)
		return err_oom(e);
	if (vagrant_run(vm->dir, op, &run, report, e) < 0) {
		if (strcmp(report->error_class, "SSHNotReady") != 0 &&
			strcmp(report->error_class, "VMNotRunningError") != 0 &&
			strcmp(report->error_class, "MachineNotRunning") != 0)
			return -1;
		err_set(e, ERR_UNAVAILABLE, "VM %s is not running", vm->name);
		set_dead(vm, e);
		return -1;
	}
	m = vagrant_report_machine(report, vm->machine);
	if (!m || !m->ssh.port)
		return err_set(e, ERR_UNAVAILABLE, "vagrant ssh-config: %s",
			report->error[0] ? report->error : "it does not say how to reach the VM");
	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		vm->ssh = m->ssh;
	}
	vagrant_vm_keep_ssh_config(vm, op);
	return 0;
}

static int connect_once(
	struct vagrant_vm *vm, const struct op *op, struct ssh_process **ret, struct err *e)
{
	char expected[SSH_HOST_KEY_MAX], found[SSH_HOST_KEY_MAX];
	const char *keys[VAGRANT_KEYS_MAX];
	struct vagrant_ssh ssh = ssh_of(vm, expected);
	struct ssh_target to = {.program = vm->ssh_path,
		.guard = vm->dir->guard,
		.runners = vm->runners,
		.host = ssh.host,
		.user = ssh.user,
		.port = ssh.port,
		.keys = keys,
		.n_keys = ssh.n_keys,
		.host_key = expected};

	for (unsigned i = 0; i < ssh.n_keys; i++)
		keys[i] = ssh.keys[i];
	if (ssh_process_open(op, &to, ret, found, e) < 0)
		return -1;
	auto_unlock struct lock *held = lock_take(&vm->mu);
	memcpy(vm->host_key, found, sizeof(vm->host_key));
	return 0;
}

static bool is_being_made(struct vagrant_vm *vm)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	return vm->being_made;
}

/*
 * Connects while Vagrant makes the machine. Vagrant is not asked anything, and attempts are short:
 * one that leads nowhere, since the guest has yet to boot, must not delay the next. 1: connected;
 * 0: Vagrant has finished.
 */
static int connect_soon(
	struct vagrant_vm *vm, const struct op *op, struct ssh_process **ret, struct err *e)
{
	while (is_being_made(vm)) {
		struct op attempt = op_within(op, SOON_SECONDS);

		if (connect_once(vm, &attempt, ret, e) == 0)
			return 1;
		if (e->kind != ERR_UNAVAILABLE && e->kind != ERR_TIMEOUT)
			return -1;
		if (op_pause(op, SOON, e) < 0)
			return -1;
	}
	return 0;
}

/*
 * A machine that does not answer may be booting, may have another address since, or may be off:
 * Vagrant knows.
 */
static int connect_to(
	struct vagrant_vm *vm, const struct op *op, struct ssh_process **ret, struct err *e)
{
	struct op boot = op_within(op, vm->boot_timeout);
	char unused[SSH_HOST_KEY_MAX];
	struct err last;
	int soon = connect_soon(vm, &boot, ret, e);

	if (soon)
		return soon < 0 ? -1 : 0;
	if (!ssh_of(vm, unused).port && ask_vagrant(vm, op, e) < 0)
		return -1;
	for (;;) {
		if (connect_once(vm, &boot, ret, e) == 0)
			return 0;
		if (e->kind != ERR_UNAVAILABLE || e->sys == EKEYREJECTED)
			return -1;
		last = *e;
		if (op_pause(&boot, AGAIN, e) < 0 || ask_vagrant(vm, &boot, e) < 0) {
			if (e->kind == ERR_TIMEOUT && op_check(op, e) == 0)
				*e = last;
			return -1;
		}
	}
}

static int open_line(struct vagrant_vm *vm, const struct op *op, struct guest **ret,
	struct ssh_process **ret_ssh, struct err *e)
{
	struct op soon;
	struct ssh_process *ssh = NULL;
	bool as_root;
	int fd = -1;

	if (!vm->ssh_path)
		return err_set(e, ERR_UNSUPPORTED, "moat-ssh is not installed beside moat");
	if (connect_to(vm, op, &ssh, e) < 0)
		return -1;
	soon = op_within(op, RUNNER_S);
	if (ssh_process_start_runner(&soon, ssh, &as_root, &fd, e) < 0 ||
		line_open(&soon, fd, vm->boot_timeout, ret, e) < 0) {
		if (fd >= 0)
			close(fd);
		ssh_process_close(ssh);
		return -1;
	}
	*ret_ssh = ssh;
	if (!as_root)
		log_msg(op, LOG_WARN, "%s: no sudo without a password: commands run as %s only",
			vm->name, vm->ssh.user);
	return 0;
}

/* ---- links ---- */

static int alive(void *arg, struct err *e)
{
	struct vagrant_vm *vm = arg;
	auto_unlock struct lock *held = lock_take(&vm->mu);

	if (vm->state != VM_DEAD)
		return 0;
	*e = vm->death;
	return -1;
}

static int open_link(
	void *arg, const struct op *op, struct guest **ret, void **ret_below, struct err *e)
{
	struct vagrant_vm *vm = arg;
	struct ssh_process *ssh = NULL;

	if (open_line(vm, op, ret, &ssh, e) < 0)
		return err_wrap(e, "VM %s", vm->name);
	*ret_below = ssh;
	auto_unlock struct lock *held = lock_take(&vm->mu);
	vm->state = VM_RUNNING;
	return 0;
}

static void close_below(void *below)
{
	ssh_process_close(below);
}

const struct guest_links_ops vagrant_links = {
	.alive = alive, .open = open_link, .close_below = close_below};

int vagrant_guest_set_clock(struct vagrant_vm *vm, const struct op *op, struct err *e)
{
	char now[32];
	const char *const argv[] = {"date", "-u", "-s", now, NULL};
	struct guest_exec req = {
		.argv = argv, .user = "root", .timeout = CLOCK_SECONDS, .capture_max = 4096};
	struct guest_io io = {0};
	struct guest_exit end = {0};
	struct guest *g;
	int rc;

	if (links_take(&vm->links, op, &g, e) < 0)
		return -1;
	snprintf(now, sizeof(now), "@%lld", (long long)time(NULL));
	rc = guest_exec(g, op, &req, &io, &end, e);
	links_give(&vm->links, g);
	if (rc == 0 && (end.stage != GUEST_RAN || end.code != 0))
		log_msg(op, LOG_WARN, "%s: its clock could not be set and may be behind", vm->name);
	return rc;
}
