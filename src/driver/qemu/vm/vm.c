#include "driver/qemu-vm.h"

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

#include "driver/qemu-args.h"
#include "driver/seed.h"
#include "store/overlay.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/memory.h"
#include "util/str.h"
#include "util/tsc.h"

enum { MONITOR_STACK = 128 * 1024 };
#define ANSWER_SECONDS   60.0 /* for QEMU's first answer, on a host that is slow */
#define LOAD_MB_A_SECOND 20.0 /* of memory that is in a snapshot's file, on such a host's disk */
#define REASON_SECONDS   3.0  /* between the end of a runner and that of a guest that shuts down */
#define END_SECONDS      5.0  /* between the first sign of QEMU's end and the end itself */
#define INSIST_AGAIN     0.1

static const char *const uefi_pairs[][2] = {
	{"/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"},
	{"/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"},
	{"/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"},
	{"/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"},
};

/* NULL: no UEFI firmware is installed. */
static const char *const *find_uefi(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(uefi_pairs); i++)
		if (path_exists(uefi_pairs[i][0]) && path_exists(uefi_pairs[i][1]))
			return uefi_pairs[i];
	return NULL;
}

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
	pthread_mutex_init(&vm->mu, NULL);
	if (getrandom(&vm->mac_base, sizeof(vm->mac_base), 0) != sizeof(vm->mac_base))
		return err_sys(e, errno, "getrandom");
	return ways_init(&vm->ways, &qemu_ways, vm, e);
}

int qemu_vm_prepare(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	const char *const *uefi = find_uefi();
	auto_free char *vars = NULL, *seed = NULL;

	if (op_check(op, e) < 0 || prepare_disk(vm, e) < 0)
		return -1;
	if (vm->spec->uefi_boot) {
		if (!uefi)
			return err_set(e, ERR_UNSUPPORTED,
				"no UEFI firmware is installed: apt-get install ovmf");
		if (vm_path(vm, "uefi-vars", &vars, e) < 0 || copy_file(uefi[1], vars, e) < 0)
			return -1;
	}
	if (vm->spec->cloud_init && (vm_path(vm, "seed.iso", &seed, e) < 0 ||
					    seed_write(seed, vm->sandbox, vm->spec, e) < 0))
		return -1;
	return 0;
}

/* QEMU's open files while it is being started: ours are closed when it has them. */
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

/* Memory and disk of a template. Its state comes later, through the monitor. */
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

static int open_files(struct qemu_vm *vm, const char *kernel, struct files *f, struct err *e)
{
	auto_free char *overlay = NULL, *vars = NULL, *seed = NULL;

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
		add_open(f, vm->image->initrd, O_RDONLY, QEMU_FD_INITRD, e) < 0)
		return -1;
	if (vm->spec->uefi_boot &&
		(add_open(f, find_uefi()[0], O_RDONLY, QEMU_FD_UEFI_CODE, e) < 0 ||
			add_open(f, vars, O_RDWR, QEMU_FD_UEFI_VARS, e) < 0))
		return -1;
	if (vm->spec->cloud_init && add_open(f, seed, O_RDONLY, QEMU_FD_SEED, e) < 0)
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
		.guard = vm->env->helper_path, .guard_isolate = true, .fds = f->fds, .n_fds = f->n};
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
		auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
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

static void on_event(void *arg, const char *name, json_t *data);

static int start_monitor(struct qemu_vm *vm, struct err *e)
{
	pthread_attr_t attr;
	int rc;

	vm->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	vm->dead_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vm->stop_fd < 0 || vm->dead_fd < 0)
		return err_sys(e, errno, "eventfd");
	if (qmp_new(vm->qmp_fd, on_event, vm, &vm->qmp, e) < 0)
		return -1;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, MONITOR_STACK);
	rc = pthread_create(&vm->monitor, &attr, qemu_vm_monitor, vm);
	pthread_attr_destroy(&attr);
	if (rc)
		return err_sys(e, rc, "thread");
	vm->monitor_runs = true;
	return 0;
}

int qemu_vm_start(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	__attribute__((cleanup(files_close))) struct files f = {0};
	struct op soon = op_within(op, ANSWER_SECONDS), load;
	const char *kernel = choose_kernel(vm);

	if (open_logs(vm, e) < 0 || open_files(vm, kernel, &f, e) < 0 ||
		add_taps(vm, op, &f, e) < 0 || spawn_qemu(vm, kernel, &f, e) < 0 ||
		start_monitor(vm, e) < 0)
		return -1;
	/* Its first answer shows that QEMU liked its arguments. */
	if (qmp_call(vm->qmp, &soon, "qmp_capabilities", NULL, -1, NULL, e) < 0)
		return qemu_vm_explain(vm, e);
	if (!vm->load)
		return 0;
	/* It was saved while it stood still, and stays so until told otherwise. */
	load = op_within(op, ANSWER_SECONDS + vm->spec->ram_mb / LOAD_MB_A_SECOND);
	if (qemu_state_load(vm, &load, e) < 0 || qemu_state_wait(vm, &load, e) < 0)
		return -1;
	return vm->paused ? 0 : qemu_vm_continue(vm, op, e);
}

int qemu_vm_continue(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op soon = op_within(op, 60);

	if (qmp_call(vm->qmp, &soon, "cont", NULL, -1, NULL, e) < 0)
		return qemu_vm_explain(vm, e);
	vm->paused = false;
	return 0;
}

int qemu_vm_insist(struct qemu_vm *vm, const struct op *op, const char *command, struct err *e)
{
	struct err late;

	while (qmp_call(vm->qmp, op, command, NULL, -1, NULL, e) < 0)
		if (qemu_vm_alive(vm, &late) < 0 || op_pause(op, INSIST_AGAIN, &late) < 0)
			return qemu_vm_explain(vm, e);
	return 0;
}

void qemu_vm_keep(struct qemu_vm *vm)
{
	char path[80];
	auto_file FILE *f = NULL;
	int qemu;

	/* The one child of its guard. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)vm->proc.pid,
		(int)vm->proc.pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &qemu) == 1)
		memory_victim(qemu, MEMORY_VICTIM_LATER);
}

/* On the monitor's thread. */
static void on_event(void *arg, const char *name, json_t *data)
{
	struct qemu_vm *vm = arg;

	if (strcmp(name, "VSERPORT_CHANGE") == 0) {
		const char *id = json_string_value(json_object_get(data, "id"));

		if (!id || strcmp(id, QEMU_RUNNER_PORT) != 0)
			return;
		/* A kernel closes it, too, when it shuts down: what comes next tells. */
		qemu_vm_cut_off(vm, RUNNER_ENDED);
		if (json_is_false(json_object_get(data, "open"))) {
			vm->cut_off = ways_detach(&vm->ways);
			vm->cut_off_until = now_ns() + (int64_t)(REASON_SECONDS * 1e9);
		}
	} else if (strcmp(name, "RESET") == 0) {
		qemu_vm_cut_off(vm, "the VM was reset");
		ways_lost(&vm->ways, "the VM was reset");
	} else if (strcmp(name, "SHUTDOWN") == 0) {
		auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
		vm->guest_shut_down = json_is_true(json_object_get(data, "guest"));
		vm->cut_off_until = now_ns() + (int64_t)(END_SECONDS * 1e9);
	} else if (strcmp(name, "BLOCK_IO_ERROR") == 0 &&
		   json_is_true(json_object_get(data, "nospace"))) {
		/* QEMU has paused the VM. Nobody would ever continue it, so it ends with a reason
		 * instead. No log could take that: it is on the same disk. */
		vm->ended_because = "the host's disk is full";
		proc_end(&vm->proc);
	}
}

/* QEMU's end of a socket is closed only when it ends. */
static bool is_ending(const struct qemu_vm *vm)
{
	char byte;

	return vm->monitor_runs && recv(vm->runner_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

int qemu_vm_alive(struct qemu_vm *vm, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);

	if (vm->state != BOX_VM_DEAD)
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
	/* Its sockets close a moment before the monitor knows why. */
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
	uint64_t one = 1;

	/* The monitor first: it may be about to kill QEMU, and must not find its pid given back. */
	if (vm->monitor_runs) {
		if (write(vm->stop_fd, &one, sizeof(one)) < 0)
			log_msg(NULL, LOG_WARN, "%s: cannot stop a monitor", vm->sandbox);
		pthread_join(vm->monitor, NULL);
		vm->monitor_runs = false;
	}
	proc_kill(&vm->proc);
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
	vm->proc = PROC_NONE;
}

static void close_all(struct qemu_vm *vm)
{
	qga_close(vm->qga);
	vm->qga = NULL;
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
	ways_lost(&vm->ways, why);
	end_process(vm);
	ways_close(&vm->ways);
	close_all(vm);
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
	vm->state = BOX_VM_STARTING;
	vm->guest_shut_down = false;
	vm->ended_because = NULL;
}

void qemu_vm_bury(struct qemu_vm *vm, const struct err *why)
{
	auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);

	vm->state = BOX_VM_DEAD;
	vm->death = *why;
}

void qemu_vm_free(struct qemu_vm *vm)
{
	end_process(vm);
	ways_done(&vm->ways);
	close_all(vm);
	pthread_mutex_destroy(&vm->mu);
	templates_give(vm->env->templates, vm->template);
	store_unuse(vm->use);
	image_free(vm->image);
}
