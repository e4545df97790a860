/*
 * The maker of a template is an ordinary VM with its memory in a file. It boots once for all VMs of
 * its kind. Its QEMU and its files belong to the sandbox that wanted the template first, so a crash
 * leaves nothing that the journal does not know.
 */
#include "driver/qemu/vm/template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver/qemu/vm/args.h"
#include "driver/qemu/vm/container.h"
#include "driver/qemu/vm/files.h"
#include "driver/qemu/vm/state.h"
#include "wire/wire.h"
#include "net/net.h"
#include "store/template/templates.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/system/log.h"
#include "util/system/memory.h"
#include "util/system/sha256-file.h"
#include "util/str.h"
#include "util/system/tsc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#else /* guests have an emulated CPU, which is QEMU's own */
#define __get_cpuid(leaf, a, b, c, d) 0
#endif

#define SETTLE_SECONDS 300.0
enum { TSC_STEP_KHZ = 16 * 1000 };

extern const char qemu_script_settle[]; /* settle.sh */

/* Why the VM cannot start from a template; NULL: it can. */
static const char *obstacle(const struct qemu_vm *vm)
{
	struct err ignored;

	if (!vm->spec->warm)
		return "the spec says warm: false";
	if (!vm->spec->is_sandbox && !vm->image->container)
		return "nobody can look into a VM with is_sandbox: false";
	if (vm->windows)
		return "a copied Windows keeps the identity of the first";
	if (vm->spec->cloud_init)
		return "cloud_init acts at the first boot";
	if (vm->spec->cdrom)
		return "a CD may be anything";
	if (vm->spec->uefi_boot)
		return "UEFI variables are not in templates";
	if (json_array_size(json_object_get(vm->spec->native, "args")))
		return "native.args may be anything";
	if (!runners_for(&vm->env->runners, vm->image->arch, &ignored))
		return "moat-guest is not installed";
	if (vm->image->container && !runners_init(&vm->env->runners, vm->image->arch, &ignored))
		return "moat-init is not installed";
	if (!vm->env->templates)
		return "there is no place for templates";
	return NULL;
}

static void add_text(struct sha256 *s, const char *text)
{
	sha256_add(s, text ? text : "", strlen(text ? text : "") + 1);
}

/* Size and time of a program's file: after an upgrade they are others. */
static void add_program(struct sha256 *s, const char *name)
{
	auto_free char *dirs = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin");
	char path[4096], *rest = dirs;
	struct stat st = {0};

	for (char *dir; dirs && !strchr(name, '/') && (dir = strsep(&rest, ":"));) {
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		if (stat(path, &st) == 0)
			break;
	}
	if (strchr(name, '/'))
		stat(name, &st);
	sha256_add(s, &st.st_size, sizeof(st.st_size));
	sha256_add(s, &st.st_mtim, sizeof(st.st_mtim));
}

/*
 * The CPU, and the frequency of its clock, by which a guest measures time. Many CPUs do not tell
 * it, so it is measured as well, and rounded: no two measurements are the same.
 */
static void add_cpu(struct sha256 *s)
{
	static const unsigned leaves[] = {1, 0x15, 0x16, 0x80000002, 0x80000003, 0x80000004};
	unsigned rounded = (tsc_khz() + TSC_STEP_KHZ / 2) / TSC_STEP_KHZ;

	sha256_add(s, &rounded, sizeof(rounded));
	for (unsigned i = 0; i < ARRAY_LEN(leaves); i++) {
		unsigned r[4] = {0};

		if (!__get_cpuid(leaves[i], &r[0], &r[1], &r[2], &r[3]))
			continue;
		if (leaves[i] == 1)
			r[1] = r[2] = r[3] = 0; /* these depend on the core that we run on */
		sha256_add(s, r, sizeof(r));
	}
}

/* QEMU's arguments say nearly everything about the VM: those without what differs by sandbox. */
static int add_args(struct sha256 *s, const struct qemu_vm *vm, struct err *e)
{
	struct vm_spec anonymous = *vm->spec;
	char no_name[] = "vm";
	struct qemu_plan plan = {.qemu = vm->env->qemu,
		.sandbox = "template",
		.vm = &anonymous,
		.image = vm->image,
		.kvm = vm->kvm,
		.kernel = vm->image->kernel,
		.net = vm->net ? net_plan(vm->net) : NULL,
		.index = vm->index,
		.ram = QEMU_RAM_SHARED,
		.template = true};
	auto_strv struct strv args = {0};

	anonymous.name = no_name;
	if (qemu_args(&plan, &args, e) < 0)
		return -1;
	for (size_t i = 0; i < args.n; i++)
		add_text(s, args.v[i]);
	return 0;
}

struct key {
	char hex[SHA256_HEX + 1];
	char files[SHA256_HEX + 1]; /* what went into it of the spec's files */
};

static int sum_program(
	const struct op *op, const char *path, char ret[SHA256_HEX + 1], struct err *e)
{
	auto_fd int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (!path)
		return -1;
	return fd < 0 ? err_sys(e, errno, "%s", path) : sha256_file(op, fd, NULL, ret, e);
}

/* Our init's files, and what it runs, come after the start: they make no template of their own. */
static int add_init(struct sha256 *s, const struct qemu_vm *vm, const struct op *op, struct err *e)
{
	const char *path = runners_init(&vm->env->runners, vm->image->arch, e);
	char digest[SHA256_HEX + 1];

	if (sum_program(op, path, digest, e) < 0)
		return -1;
	add_text(s, digest);
	return 0;
}

static int add_files(struct sha256 *s, const struct qemu_vm *vm, struct key *ret, struct err *e)
{
	if (qemu_files_sum(vm->spec, ret->files, e) < 0)
		return -1;
	add_text(s, ret->files);
	return 0;
}

static int make_key(const struct qemu_vm *vm, const struct op *op, struct key *ret, struct err *e)
{
	const char *path = runners_for(&vm->env->runners, vm->image->arch, e);
	const int format = TEMPLATE_FORMAT;
	char digest[SHA256_HEX + 1];
	struct sha256 s;

	if (sum_program(op, path, digest, e) < 0)
		return -1;
	sha256_start(&s);
	add_text(&s, "template");
	sha256_add(&s, &format, sizeof(format));
	add_text(&s, vm->image->digest);
	add_text(&s, digest);
	sha256_add(&s, &vm->spec->disk_gb, sizeof(vm->spec->disk_gb));
	add_program(&s, vm->env->qemu);
	add_cpu(&s);
	if (vm->image->container ? add_init(&s, vm, op, e) < 0 : add_files(&s, vm, ret, e) < 0)
		return -1;
	if (add_args(&s, vm, e) < 0)
		return -1;
	sha256_end(&s, ret->hex);
	return 0;
}

/* ---- making ---- */

static int add_output(void *arg, int stream, struct bytes data, struct err *e)
{
	return stream == WIRE_STDOUT ? buf_add(arg, data.p, data.len, e) : 0;
}

/* Waits until the guest is idle. *ret_keys: the kinds of SSH host keys that it has, one a line. */
static int settle(struct qemu_vm *vm, const struct op *op, struct buf *ret_keys, struct err *e)
{
	const char *argv[] = {"/bin/sh", "-c", qemu_script_settle, NULL};
	struct guest_exec req = {.argv = argv, .timeout = SETTLE_SECONDS, .capture_max = 1024};
	struct guest_io io = {.output = add_output, .arg = ret_keys};
	struct guest_exit end = {0};
	struct guest *g;
	int rc;

	if (links_take(&vm->links, op, &g, e) < 0)
		return -1;
	if (!guest_has_runner(g))
		rc = err_set(e, ERR_UNSUPPORTED, "the runner cannot run in it");
	else if (vm->image->container)
		rc = qemu_container_settle(g, op, e);
	else
		rc = guest_exec(g, op, &req, &io, &end, e);
	links_give(&vm->links, g);
	if (rc == 0 && !vm->image->container && (end.stage != GUEST_RAN || end.timed_out))
		rc = err_set(e, ERR_BACKEND, "it does not settle");
	return rc;
}

/* Gives the disk the name that it has in templates, and removes what only its maker needed. */
static int tidy(const struct qemu_vm *vm, struct err *e)
{
	static const char *const others[] = {
		"console.log", "console.log.1", "qemu.log", "qemu.log.1", "initrd"};
	auto_free char *overlay = NULL, *disk = NULL, *own = NULL, *initrd = NULL;

	if (str_printf(&overlay, e, "%s/%s.qcow2", vm->dir, vm->spec->name) < 0 ||
		str_printf(&disk, e, "%s/disk.qcow2", vm->dir) < 0)
		return -1;
	if (vm->image->disk && rename(overlay, disk) < 0)
		return err_sys(e, errno, "%s", overlay);
	/* That of a container's VM is the same for all VMs of the template. */
	if (vm->image->container &&
		(str_printf(&own, e, "%s/%s.initrd", vm->dir, vm->spec->name) < 0 ||
			str_printf(&initrd, e, "%s/" TEMPLATE_INITRD, vm->dir) < 0))
		return -1;
	if (vm->image->container && rename(own, initrd) < 0)
		return err_sys(e, errno, "%s", own);
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		auto_free char *path = NULL;

		if (str_printf(&path, e, "%s/%s.%s", vm->dir, vm->spec->name, others[i]) < 0)
			return -1;
		unlink(path);
	}
	return 0;
}

/* Boots it with its NICs unplugged, and saves it when it has settled. */
static int run_maker(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op boot = op_within(op, vm->env->boot_timeout);
	auto_free char *state = NULL, *keys = NULL;
	auto_buf struct buf kinds = {0};

	if (str_printf(&state, e, "%s/state", vm->dir) < 0 ||
		str_printf(&keys, e, "%s/" TEMPLATE_HOSTKEYS, vm->dir) < 0 ||
		qemu_vm_prepare(vm, op, e) < 0 || qemu_vm_start(vm, op, e) < 0 ||
		qemu_nics_plug(vm, op, false, e) < 0 || qemu_vm_continue(vm, op, e) < 0)
		return -1;
	op_progress(
		op, 0, 0, "making a template of %s: booting", qemu_source_name(&vm->spec->source));
	if (settle(vm, &boot, &kinds, e) < 0 ||
		file_write_atomic(keys, buf_data(&kinds), kinds.len, 0600, e) < 0)
		return -1;
	op_progress(
		op, 0, 0, "making a template of %s: saving", qemu_source_name(&vm->spec->source));
	links_lost(&vm->links, "it becomes a template");
	if (qemu_vm_stop(vm, op, e) < 0)
		return -1;
	return qemu_state_save(vm, op, state, false, e);
}

static json_t *describe(const struct qemu_vm *vm)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:I}", "name",
		qemu_source_name(&vm->spec->source), "image", vm->image->digest, "ram_mb",
		(int)vm->spec->ram_mb, "vcpus", (int)vm->spec->vcpus, "nics", (int)vm->spec->n_nics,
		"accelerator", vm->kvm ? "kvm" : "tcg", "created", (json_int_t)time(NULL));
}

static int make(struct qemu_vm *vm, const struct op *op, const struct key *key, struct err *e)
{
	struct templates *ts = vm->env->templates;
	__attribute__((cleanup(templates_discard))) struct template_draft draft = {0};
	struct net *net = NULL;
	auto_json json_t *about = describe(vm);
	struct qemu_vm maker;
	int rc;

	if (!about)
		return err_oom(e);
	if (templates_draft(ts, (uint64_t)vm->spec->ram_mb << 20, &draft, e) < 0)
		return -1;
	rc = qemu_vm_init(&maker,
		&(struct qemu_vm_where){.env = vm->env,
			.sandbox = vm->sandbox,
			.dir = draft.dir,
			.spec = vm->spec,
			.index = vm->index,
			.kvm = vm->kvm},
		e);
	/* The maker is not on the sandbox's own network, but on one that is made like it, with its
	 * NICs unplugged. */
	if (rc == 0 && vm->net)
		rc = net_open(op,
			&(struct net_req){.helper_path = vm->env->helper_path,
				.sandbox = vm->sandbox,
				.spec = vm->sandbox_spec,
				.random = vm->mac_base,
				.no_captures = true},
			&net, e);
	maker.net = net;
	maker.image = vm->image;
	maker.user = vm->user;
	maker.windows = vm->windows;
	maker.template_ram = draft.ram_fd;
	maker.files_sum = key->files;
	maker.paused = true;
	if (rc == 0)
		rc = run_maker(&maker, op, e);
	qemu_vm_end(&maker, "it is a template now");
	if (rc == 0)
		rc = tidy(&maker, e);
	maker.image = NULL; /* it was borrowed */
	qemu_vm_free(&maker);
	net_close(net);
	return rc < 0 ? -1 : templates_publish(ts, op, &draft, key->hex, about, e);
}

/* Takes the template, or makes it, or waits for another thread or daemon that makes it. */
static int get(struct qemu_vm *vm, const struct op *op, const struct key *key, struct err *e)
{
	struct templates *ts = vm->env->templates;
	auto_fd int claim = -1;
	int64_t began;
	int got = templates_take(ts, op, key->hex, &vm->template, e);

	if (got)
		return got < 0 ? -1 : 0;
	if (templates_claim(ts, op, key->hex, &claim, e) < 0)
		return -1;
	got = templates_take(ts, op, key->hex, &vm->template, e);
	if (got)
		return got < 0 ? -1 : 0;
	if (templates_failed(ts, key->hex, e))
		return -1;
	began = now_ns();
	if (make(vm, op, key, e) < 0) {
		/* A disk or memory that is full now need not be so the next time. */
		if (op_check(op, &(struct err){0}) == 0 && e->kind != ERR_LIMIT &&
			!err_is_shortage(e))
			templates_note_failure(ts, key->hex, now_ns() - began, e);
		return -1;
	}
	got = templates_take(ts, op, key->hex, &vm->template, e);
	return got > 0 ? 0 : got < 0 ? -1 : err_set(e, ERR_BACKEND, "the new template is gone");
}

int qemu_template_choose(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	const char *why = obstacle(vm);
	struct key key;
	struct err trouble;

	if (why) {
		snprintf(vm->cold_reason, sizeof(vm->cold_reason), "%s", why);
		return 0;
	}
	if (make_key(vm, op, &key, e) == 0 && get(vm, op, &key, e) == 0) {
		vm->load = vm->template->state;
		vm->copied = vm->runner_waits = true;
		return 0;
	}
	if (op_check(op, &trouble) < 0) {
		*e = trouble;
		return -1;
	}
	snprintf(vm->cold_reason, sizeof(vm->cold_reason), "%.150s", e->msg);
	log_err(op, LOG_WARN, e, "%s/%s starts cold: no template", vm->sandbox, vm->spec->name);
	return 0;
}

int qemu_template_give_up(
	struct qemu_vm *vm, const struct op *op, const struct err *why, struct err *e)
{
	auto_free char *overlay = NULL;
	char key[SHA256_HEX + 1];
	struct err ignored;

	log_err(op, LOG_WARN, why, "%s/%s starts cold: not from its template", vm->sandbox,
		vm->spec->name);
	snprintf(vm->cold_reason, sizeof(vm->cold_reason), "%s%.120s",
		err_is_shortage(why) ? "" : "the template does not work: ", why->msg);
	qemu_vm_end(vm, why->msg);
	memcpy(key, vm->template->key, sizeof(key));
	templates_give(vm->env->templates, take_ptr(&vm->template));
	/* A QEMU that ended for want of memory, say, tells nothing about its template. */
	if (!err_is_shortage(why) &&
		templates_remove(vm->env->templates, key, &(uint64_t){0}, &ignored) < 0)
		log_err(op, LOG_WARN, &ignored, "the template stays");
	vm->load = NULL;
	vm->copied = vm->runner_waits = false;
	if (str_printf(&overlay, e, "%s/%s.qcow2", vm->dir, vm->spec->name) < 0)
		return -1;
	unlink(overlay);
	return qemu_vm_prepare(vm, op, e) < 0 ? -1 : qemu_vm_start(vm, op, e);
}
