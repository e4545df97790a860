#include "driver/qemu/vm/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/qemu/vm/args.h"
#include "driver/qemu/vm/files.h"
#include "driver/qemu/vm/guest.h"
#include "driver/qemu/vm/monitor.h"
#include "driver/qemu/vm/state.h"
#include "driver/qemu/vm/uefi.h"
#include "driver/seed.h"
#include "store/overlay.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/system/memory.h"
#include "util/str.h"
#include "util/system/tsc.h"

#define END_SECONDS   5.0 /* between the first sign of QEMU's end and the end itself */
#define INSIST_AGAIN  0.1
#define GO_ON_SECONDS 30.0
#define NO_UEFI       "no UEFI firmware is installed: apt-get install ovmf"

static int vm_path(const struct qemu_vm *vm, const char *suffix, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s/%s.%s", vm->dir, vm->spec->name, suffix);
}

static int copy_file(const char *from, const char *to, struct err *e)
{
	auto_fd int in = open(from, O_RDONLY | O_CLOEXEC);
	auto_fd int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n;

	if (in < 0 || out < 0)
		return err_sys(e, errno, "copy %s", from);
	while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
		;
	return n < 0 ? err_sys(e, errno, "copy %s", from) : 0;
}

static int prepare_disk(struct qemu_vm *vm, struct err *e)
{
	auto_free char *path = NULL;
	struct overlay_req req = {.base = vm->image->disk,
		.base_format = vm->image->disk_format,
		.size = (uint64_t)vm->spec->disk_gb << 30};

	if (!vm->image->disk)
		return 0;
	if (vm_path(vm, "qcow2", &path, e) < 0)
		return -1;
	req.path = path;
	if (vm->template) {
		req.base = vm->template->disk;
		req.base_format = "qcow2";
	}
	return overlay_create(&req, e);
}

int qemu_vm_init(struct qemu_vm *vm, const struct qemu_vm_where *where, struct err *e)
{
	*vm = (struct qemu_vm){.env = where->env,
		.sandbox = where->sandbox,
		.dir = where->dir,
		.spec = where->spec,
		.sandbox_spec = where->sandbox_spec,
		.index = where->index,
		.net = where->net,
		.kvm = where->kvm,
		.template_ram = -1,
		.proc = PROC_NONE,
		.qmp_fd = -1,
		.agent_fd = -1,
		.runner_fd = -1,
		.console_fd = -1,
		.stderr_fd = -1,
		.stop_fd = -1,
		.dead_fd = -1,
		.console = CAPLOG_NONE,
		.backend = CAPLOG_NONE};
	lock_init(&vm->mu, "qemu_vm.mu", LOCK_LEAF);
	links_init(&vm->links, &qemu_links, vm);
	if (getrandom(&vm->mac_base, sizeof(vm->mac_base), 0) != sizeof(vm->mac_base))
		return err_sys(e, errno, "getrandom");
	return 0;
}

int qemu_vm_prepare(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	const struct uefi *uefi = uefi_find("");
	auto_free char *vars = NULL, *seed = NULL;

	if (op_check(op, e) < 0 || prepare_disk(vm, e) < 0)
		return -1;
	if (vm->spec->uefi_boot) {
		if (!uefi)
			return err_set(e, ERR_UNSUPPORTED, NO_UEFI);
		if (vm_path(vm, "uefi-vars", &vars, e) < 0 || copy_file(uefi->vars, vars, e) < 0)
			return -1;
	}
	if (vm->spec->cloud_init && (vm_path(vm, "seed.iso", &seed, e) < 0 ||
					    seed_write(seed, vm->sandbox, vm->spec, e) < 0))
		return -1;
	if (qemu_files_initrd(vm, e) < 0)
		return -1;
	/* The disk of a template has them already. */
	return vm->template ? 0 : qemu_files_put(vm, op, e);
}

/* The files that a QEMU gets when it starts. Our copies are closed when it has them. */
struct files {
	struct proc_fd fds[QEMU_FD_END - QEMU_FD_QMP + SPEC_NICS_MAX];
	unsigned n;
};

static void files_close(struct files *f)
{
	for (unsigned i = 0; i < f->n; i++)
		close(f->fds[i].fd);
}

static int add_open(struct files *f, const char *path, int flags, int as, struct err *e)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	f->fds[f->n++] = (struct proc_fd){.fd = fd, .as = as};
	return 0;
}

static int add_dup(struct files *f, int fd, int as, struct err *e)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return err_sys(e, errno, "dup");
	f->fds[f->n++] = (struct proc_fd){.fd = copy, .as = as};
	return 0;
}

/* Memory and disk of a template. The state comes later, through the monitor. */
static int add_template(struct qemu_vm *vm, struct files *f, struct err *e)
{
	const struct template *t = vm->template;

	if (vm->template_ram >= 0)
		return add_dup(f, vm->template_ram, QEMU_FD_RAM, e);
	if (!t)
		return 0;
	if (vm->copied && add_dup(f, t->ram_fd, QEMU_FD_RAM, e) < 0)
		return -1;
	return t->disk ? add_open(f, t->disk, O_RDONLY, QEMU_FD_LAYER, e) : 0;
}

/* A connected pair: QEMU's end goes into the list, ours is non-blocking. */
static int add_pair(struct files *f, int as, int *ret_ours, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");
	f->fds[f->n++] = (struct proc_fd){.fd = pair[1], .as = as};
	*ret_ours = pair[0];
	return fd_set_nonblock(pair[0], e);
}

static int add_taps(struct qemu_vm *vm, const struct op *op, struct files *f, struct err *e)
{
	for (size_t i = 0; vm->net && i < vm->spec->n_nics; i++) {
		int fd;

		if (net_tap(vm->net, op, vm->index, i, &fd, e) < 0)
			return -1;
		f->fds[f->n++] = (struct proc_fd){.fd = fd, .as = QEMU_FD_NIC + (int)i};
	}
	return 0;
}

static int add_uefi(struct files *f, const char *vars, struct err *e)
{
	const struct uefi *uefi = uefi_find("");

	if (!uefi)
		return err_set(e, ERR_UNSUPPORTED, NO_UEFI);
	if (add_open(f, uefi->code, O_RDONLY, QEMU_FD_UEFI_CODE, e) < 0)
		return -1;
	return add_open(f, vars, O_RDWR, QEMU_FD_UEFI_VARS, e);
}

static int open_files(struct qemu_vm *vm, const char *kernel, struct files *f, struct err *e)
{
	auto_free char *overlay = NULL, *vars = NULL, *seed = NULL, *initrd = NULL;

	if (add_pair(f, QEMU_FD_QMP, &vm->qmp_fd, e) < 0 ||
		add_pair(f, QEMU_FD_AGENT, &vm->agent_fd, e) < 0 ||
		add_pair(f, QEMU_FD_RUNNER, &vm->runner_fd, e) < 0 ||
		add_pair(f, QEMU_FD_CONSOLE, &vm->console_fd, e) < 0)
		return -1;
	if (vm_path(vm, "qcow2", &overlay, e) < 0 || vm_path(vm, "uefi-vars", &vars, e) < 0 ||
		vm_path(vm, "seed.iso", &seed, e) < 0)
		return -1;
	if (vm->image->disk && (add_open(f, overlay, O_RDWR, QEMU_FD_OVERLAY, e) < 0 ||
				       add_open(f, vm->image->disk, O_RDONLY, QEMU_FD_BASE, e) < 0))
		return -1;
	if (add_template(vm, f, e) < 0)
		return -1;
	if (kernel && add_open(f, kernel, O_RDONLY, QEMU_FD_KERNEL, e) < 0)
		return -1;
	if (kernel && vm->image->initrd &&
		(qemu_files_initrd_path(vm, &initrd, e) < 0 ||
			add_open(f, initrd, O_RDONLY, QEMU_FD_INITRD, e) < 0))
		return -1;
	if (vm->spec->uefi_boot && add_uefi(f, vars, e) < 0)
		return -1;
	if (vm->spec->cloud_init && add_open(f, seed, O_RDONLY, QEMU_FD_SEED, e) < 0)
		return -1;
	if (vm->spec->cdrom && add_open(f, vm->spec->cdrom, O_RDONLY, QEMU_FD_CDROM, e) < 0)
		return -1;
	return 0;
}

/* UEFI firmware starts only a bzImage; without it the faster uncompressed kernel is preferred. */
static const char *choose_kernel(const struct qemu_vm *vm)
{
	if (vm->spec->uefi_boot && vm->image->kernel_efi)
		return vm->image->kernel_efi;
	return vm->image->kernel;
}

static int spawn_qemu(struct qemu_vm *vm, const char *kernel, struct files *f, struct err *e)
{
	struct qemu_plan plan = {.qemu = vm->env->qemu,
		.sandbox = vm->sandbox,
		.vm = vm->spec,
		.image = vm->image,
		.kvm = vm->kvm,
		.tsc_khz = vm->kvm ? 0 : tsc_khz(),
		.seed = vm->spec->cloud_init != NULL,
		.uefi = vm->spec->uefi_boot ? "ovmf" : NULL,
		.net = vm->net ? net_plan(vm->net) : NULL,
		.index = vm->index,
		.kernel = kernel,
		.mac_base = vm->mac_base,
		.ram = vm->template_ram >= 0 ? QEMU_RAM_SHARED
		       : vm->copied          ? QEMU_RAM_COPIED
					     : QEMU_RAM_OWN,
		.template = vm->template_ram >= 0,
		.layered = vm->template && vm->template->disk,
		.incoming = vm->load != NULL,
		.paused = vm->paused};
	auto_strv struct strv argv = {0}, env = {0};
	struct proc_req req = {
		.guard = vm->env->helper_path, .confine = "vm", .fds = f->fds, .n_fds = f->n};
	struct proc started;
	int log[2], rc;

	if (qemu_args(&plan, &argv, e) < 0 || proc_small_env(&env, e) < 0)
		return -1;
	if (pipe2(log, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	vm->stderr_fd = log[0];
	req.argv = (const char *const *)argv.v;
	req.env = (const char *const *)env.v;
	req.err_fd = req.out_fd = log[1];
	vm->kills_before = memory_kills();
	rc = proc_start(&req, &started, e);
	close(log[1]);
	if (rc < 0)
		return -1;
	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		vm->proc = started;
	}
	return fd_set_nonblock(vm->stderr_fd, e);
}

static int open_logs(struct qemu_vm *vm, struct err *e)
{
	auto_free char *console = NULL, *backend = NULL;

	if (vm_path(vm, "console.log", &console, e) < 0 || vm_path(vm, "qemu.log", &backend, e) < 0)
		return -1;
	if (caplog_open(&vm->console, console, e) < 0 || caplog_open(&vm->backend, backend, e) < 0)
		return -1;
	return 0;
}

int qemu_vm_start(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	__attribute__((cleanup(files_close))) struct files f = {0};
	struct op soon = op_within(op, QEMU_ANSWER_SECONDS), load;
	const char *kernel = choose_kernel(vm);

	if (open_logs(vm, e) < 0 || open_files(vm, kernel, &f, e) < 0 ||
		add_taps(vm, op, &f, e) < 0 || spawn_qemu(vm, kernel, &f, e) < 0 ||
		qemu_monitor_start(vm, e) < 0)
		return -1;
	/* QEMU's first answer shows that it has taken its arguments. */
	if (qmp_call(vm->qmp, &soon, "qmp_capabilities", NULL, -1, NULL, e) < 0)
		return qemu_vm_explain(vm, e);
	if (!vm->load)
		return 0;
	/* The VM was saved while it was stopped, and stays stopped until it is told to run. */
	load = op_within(op, qemu_state_seconds(vm));
	if (qemu_state_load(vm, &load, e) < 0 || qemu_state_wait(vm, &load, e) < 0)
		return -1;
	return vm->paused ? 0 : qemu_vm_continue(vm, op, e);
}

int qemu_vm_stop(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op soon = op_within(op, QEMU_ANSWER_SECONDS);

	if (qmp_call(vm->qmp, &soon, "stop", NULL, -1, NULL, e) < 0)
		return qemu_vm_explain(vm, e);
	return 0;
}

int qemu_vm_continue(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op soon = op_within(op, QEMU_ANSWER_SECONDS);

	if (qmp_call(vm->qmp, &soon, "cont", NULL, -1, NULL, e) < 0)
		return qemu_vm_explain(vm, e);
	vm->paused = false;
	return 0;
}

int qemu_vm_insist(struct qemu_vm *vm, const struct op *op, const char *command, struct err *e)
{
	struct err late;
	bool said = false;

	while (qmp_call(vm->qmp, op, command, NULL, -1, NULL, e) < 0) {
		if (qemu_vm_alive(vm, &late) < 0)
			return qemu_vm_explain(vm, e);
		if (!said)
			log_err(op, LOG_WARN, e, "%s/%s: %s has to be sent again", vm->sandbox,
				vm->spec->name, command);
		said = true;
		if (op_pause(op, INSIST_AGAIN, &late) < 0)
			return qemu_vm_explain(vm, e);
	}
	return 0;
}

int qemu_vm_hold(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	links_stand_still(&vm->links, true);
	return qemu_vm_stop(vm, op, e);
}

void qemu_vm_let_go(struct qemu_vm *vm)
{
	struct op op = op_for_cleanup(GO_ON_SECONDS);
	struct err e;

	if (qemu_vm_insist(vm, &op, "cont", &e) < 0)
		log_err(&op, LOG_ERROR, &e, "%s/%s does not go on", vm->sandbox, vm->spec->name);
	links_stand_still(&vm->links, false);
}

void qemu_vm_keep(struct qemu_vm *vm)
{
	char path[80];
	auto_file FILE *f = NULL;
	int qemu;

	/* QEMU is the only child of its guard. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)vm->proc.pid,
		(int)vm->proc.pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &qemu) == 1)
		memory_victim(qemu, MEMORY_VICTIM_LATER);
}

/* QEMU's end of a socket is closed only when it ends. */
static bool is_ending(const struct qemu_vm *vm)
{
	char byte;

	return vm->monitor_runs && recv(vm->runner_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

int qemu_vm_alive(struct qemu_vm *vm, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	if (vm->state != VM_DEAD)
		return 0;
	*e = vm->death;
	return -1;
}

int qemu_vm_explain(struct qemu_vm *vm, struct err *e)
{
	struct op soon = op_for_cleanup(END_SECONDS);
	struct err ignored;

	if (e->kind == ERR_CANCELLED)
		return -1;
	/* QEMU's sockets close a moment before the monitor knows why it ended. */
	if (is_ending(vm) && op_wait_fd(&soon, vm->dead_fd, POLLIN, &ignored) < 0)
		return -1;
	qemu_vm_alive(vm, e);
	return -1;
}

static void close_fd(int *fd)
{
	if (*fd > 0)
		close(*fd);
	*fd = -1;
}

static void end_process(struct qemu_vm *vm)
{
	struct proc proc;

	/* The monitor first: it may be about to kill QEMU, and must not find its pid given back. */
	qemu_monitor_stop(vm);
	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		proc = vm->proc;
		vm->proc = PROC_NONE;
	}
	proc_kill(&proc);
}

static void close_all(struct qemu_vm *vm)
{
	qga_close(vm->qga);
	vm->qga = NULL;
	buf_free(&vm->unsent);
	qmp_free(vm->qmp);
	vm->qmp = NULL;
	close_fd(&vm->qmp_fd);
	close_fd(&vm->agent_fd);
	close_fd(&vm->runner_fd);
	close_fd(&vm->console_fd);
	close_fd(&vm->stderr_fd);
	close_fd(&vm->stop_fd);
	close_fd(&vm->dead_fd);
	caplog_close(&vm->console);
	caplog_close(&vm->backend);
}

void qemu_vm_end(struct qemu_vm *vm, const char *why)
{
	links_lost(&vm->links, why);
	end_process(vm);
	links_close(&vm->links);
	close_all(vm);
	vm->guest_shut_down = false;
	vm->ended_because = NULL;
	auto_unlock struct lock *held = lock_take(&vm->mu);
	vm->state = VM_STARTING;
}

const char *qemu_source_name(const struct source_spec *s)
{
	return s->kind == SPEC_SOURCE_BUILT_IN ? s->built_in
	       : s->kind == SPEC_SOURCE_OVA    ? s->ova
					       : s->image;
}

void qemu_vm_bury(struct qemu_vm *vm, const struct err *why)
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	vm->state = VM_DEAD;
	vm->death = *why;
}

void qemu_vm_free(struct qemu_vm *vm)
{
	end_process(vm);
	links_done(&vm->links);
	close_all(vm);
	lock_done(&vm->mu);
	templates_give(vm->env->templates, vm->template);
	container_free(vm->container);
	store_unuse(vm->use);
	image_free(vm->image);
}
