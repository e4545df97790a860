/*
 * Snapshots of whole sandboxes. DIR/snapshots/NAME has for each VM its state (memory and devices),
 * a copy of its overlay and, if it has any, of its UEFI variables. It gets its name when it is
 * whole. The VMs stand still while it is made and go on afterwards, whether it was made or not.
 *
 * Going back means new QEMUs: they load what was saved, standing still, and go on together. The
 * sandbox's directory, its images and templates stay what they are, so nothing else has to be
 * saved.
 */
#include "driver/qemu/snapshot.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "driver/qemu/vm/disk.h"
#include "driver/qemu/vm/files.h"
#include "driver/qemu/vm/state.h"
#include "driver/qemu/sandbox.h"
#include "driver/qemu/start.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/system/log.h"
#include "util/system/memory.h"
#include "util/str.h"

enum { NAME_LEN_MAX = 64, META_MAX = 64 * 1024 };
#define RUNNERS "runners" /* in a snapshot's meta.json; clients are not shown it */

/* The daemon's own snapshots have a dot before their names. It refuses such names from clients. */
static int check_name(const char *name, struct err *e)
{
	const char *at = name[0] == '.' ? name + 1 : name;
	size_t n = strlen(at);
	bool good = n > 0 && n <= NAME_LEN_MAX && (isalnum((unsigned char)at[0]) || at[0] == '_');

	for (size_t i = 0; good && i < n; i++)
		good = isalnum((unsigned char)at[i]) || strchr("._-", at[i]);
	if (!good)
		return err_set(e, ERR_INVALID,
			"a snapshot's name has 1 to %d letters, digits and . _ -, not . or - first",
			NAME_LEN_MAX);
	return 0;
}

static int path_of(const struct qemu_sandbox *b, const char *name, char **ret, struct err *e)
{
	return str_printf(ret, e, "%s/snapshots/%s", b->dir, name);
}

/* Finds the directory of a snapshot; ERR_NOT_FOUND: there is none. */
static int find(const struct qemu_sandbox *b, const char *name, char **ret, struct err *e)
{
	auto_free char *dir = NULL;

	if (path_of(b, name, &dir, e) < 0)
		return -1;
	if (!path_exists(dir))
		return err_set(e, ERR_NOT_FOUND,
			"sandbox %s has no snapshot %.64s; see what there is: moat snapshots %s",
			b->id, name, b->id);
	*ret = take_ptr(&dir);
	return 0;
}

/* ---- making ---- */

static const char what[] = "a snapshot";

/* Fails before anything is written, rather than when the disk is full. */
static int check_room(const struct qemu_sandbox *b, struct err *e)
{
	auto_fd int dir = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned long long need = 0, room;
	struct statvfs fs;

	if (dir < 0 || fstatvfs(dir, &fs) < 0)
		return err_sys(e, errno, "%s", b->dir);
	room = (unsigned long long)fs.f_bavail * fs.f_frsize;
	for (size_t i = 0; i < b->n_vms; i++)
		need += ((unsigned long long)b->vms[i].spec->ram_mb << 20) +
			qemu_disk_bytes(&b->vms[i]);
	if (need > room)
		return err_set(e, ERR_LIMIT,
			"not enough disk for %s: it may take %llu MB, %llu MB are free", what,
			need >> 20, room >> 20);
	return memory_backs(dir) ? memory_check(need, what, e) : 0;
}

/*
 * A QEMU that saves reads all of the VM's memory. Each page that a template's memory file does not
 * have yet comes into being by that, and if memory ran out the kernel would kill QEMU. So the pages
 * are made here first, looking each time whether there is enough memory.
 */
static int take_memory(const struct qemu_sandbox *b, const struct op *op, struct err *e)
{
	for (size_t i = 0; i < b->n_vms; i++) {
		const struct qemu_vm *vm = &b->vms[i];

		if (vm->copied && vm->template &&
			memory_reserve(op, vm->template->ram_fd, vm->template->ram_size, what, e) <
				0)
			return -1;
	}
	return 0;
}

static int check_alive(struct qemu_sandbox *b, struct err *e)
{
	for (size_t i = 0; i < b->n_vms; i++)
		if (qemu_vm_alive(&b->vms[i], e) < 0)
			return -1;
	return 0;
}

static int stop_all(struct qemu_sandbox *b, const struct op *op, struct err *e)
{
	for (size_t i = 0; i < b->n_vms; i++) {
		if (qemu_vm_hold(&b->vms[i], op, e) < 0)
			return err_wrap(e, "VM %s", b->vms[i].spec->name);
	}
	return 0;
}

/* The VMs were running, and run again whatever has happened. */
static void continue_all(struct qemu_sandbox *b)
{
	for (size_t i = 0; i < b->n_vms; i++)
		qemu_vm_let_go(&b->vms[i]);
}

static int save_vm(struct qemu_vm *vm, const struct op *op, const char *dir, struct err *e)
{
	auto_free char *state = NULL;

	op_progress(op, 0, 0, "saving %s", vm->spec->name);
	if (str_printf(&state, e, "%s/%s.state", dir, vm->spec->name) < 0)
		return -1;
	return qemu_state_save(vm, op, state, true, e) < 0
		       ? -1
		       : qemu_disk_copy(vm, op, vm->dir, dir, e);
}

/* The names of VMs whose runner is part of what was saved: after going back it waits there. A guest
 * that was just booting, say, has no runner. */
static json_t *list_runners(struct qemu_sandbox *b)
{
	json_t *names = json_array();

	for (size_t i = 0; i < b->n_vms; i++)
		if (links_is_runner(&b->vms[i].links))
			json_array_append_new(names, json_string(b->vms[i].spec->name));
	return names;
}

static int write_meta(const char *dir, json_t *runners, struct err *e)
{
	auto_json json_t *meta = NULL;
	auto_free char *path = NULL, *text = NULL;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (json_make(&meta, e, "{s:I, s:O}", "created_us",
		    (json_int_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, RUNNERS, runners) < 0 ||
		json_to_str(meta, &text, e) < 0 || str_printf(&path, e, "%s/meta.json", dir) < 0)
		return -1;
	return file_write_atomic(path, text, strlen(text), 0600, e);
}

static int save_all(struct qemu_sandbox *b, const struct op *op, const char *dir, struct err *e)
{
	auto_json json_t *runners = NULL;
	int rc = stop_all(b, op, e);

	runners = list_runners(b);
	for (size_t i = 0; rc == 0 && i < b->n_vms; i++)
		rc = save_vm(&b->vms[i], op, dir, e);
	continue_all(b);
	return rc < 0 ? -1 : write_meta(dir, runners, e);
}

/* An existing snapshot of that name is replaced when the new one is whole. */
static int put_in_place(const char *draft, const char *dir, struct err *e)
{
	if (dir_remove(dir, e) < 0)
		return -1;
	return rename(draft, dir) < 0 ? err_sys(e, errno, "%s", dir) : 0;
}

static int make_snapshot(
	struct qemu_sandbox *b, const struct op *op, const char *name, struct err *e)
{
	auto_free char *dir = NULL, *draft = NULL;
	struct err undo;

	if (check_alive(b, e) < 0 || check_room(b, e) < 0 || take_memory(b, op, e) < 0 ||
		path_of(b, name, &dir, e) < 0 || path_of(b, ".new", &draft, e) < 0 ||
		dir_remove(draft, e) < 0 || dir_make(draft, 0700, e) < 0)
		return -1;
	if (save_all(b, op, draft, e) == 0 && put_in_place(draft, dir, e) == 0)
		return 0;
	if (dir_remove(draft, &undo) < 0)
		log_err(op, LOG_WARN, &undo, "%s: half a snapshot stays until the sandbox goes",
			b->id);
	return -1;
}

int qemu_snapshot(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e)
{
	struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;
	auto_turn struct turn *held = NULL;

	if (check_name(name, e) < 0 || turn_take(&b->saving, op, e) < 0)
		return -1;
	held = &b->saving;
	return make_snapshot(b, op, name, e);
}

static int read_meta(const char *dir, json_t **ret, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	return str_printf(&path, e, "%s/meta.json", dir) < 0 ||
			       file_read(path, META_MAX, &text, &len, e) < 0
		       ? -1
		       : json_parse_object((struct bytes){(uint8_t *)text, len}, ret, e);
}

/* ---- going back ---- */

static bool had_runner(const json_t *meta, const struct qemu_vm *vm)
{
	json_t *name;
	size_t i;

	json_array_foreach(json_object_get(meta, RUNNERS), i, name) {
		if (strcmp(json_string_value(name), vm->spec->name) == 0)
			return true;
	}
	return false;
}

static int load_vm(struct qemu_vm *vm, const struct op *op, const char *dir, struct err *e)
{
	auto_free char *state = NULL;
	int rc;

	if (str_printf(&state, e, "%s/%s.state", dir, vm->spec->name) < 0)
		return -1;
	vm->load = state;
	vm->copied = false; /* all of its memory is in the state */
	vm->paused = true;
	rc = qemu_vm_start(vm, op, e);
	vm->load = NULL;
	return rc;
}

/* Sets the clock, which stood still, and renews the randomness, which other copies have, too. */
static int refresh(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct guest_identity id = {.flags = WIRE_IDENTITY_CLOCK | WIRE_IDENTITY_RANDOM};
	struct op boot = op_within(op, vm->env->boot_timeout);
	struct guest *g;
	int rc = 0;

	if (!vm->spec->is_sandbox || vm->spec->cdrom)
		return 0;
	if (links_take(&vm->links, &boot, &g, e) < 0)
		return -1;
	if (guest_has_runner(g))
		rc = guest_identify(g, &boot, &id, e);
	links_give(&vm->links, g);
	return rc < 0 ? qemu_vm_explain(vm, e) : 0;
}

int qemu_refresh(struct driver_sandbox *sandbox, const struct op *op, struct err *e)
{
	struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;

	if (check_alive(b, e) < 0)
		return -1;
	for (size_t i = 0; i < b->n_vms; i++)
		if (refresh(&b->vms[i], op, e) < 0)
			return err_wrap(e, "VM %s", b->vms[i].spec->name);
	return 0;
}

static int load_all(struct qemu_sandbox *b, const struct op *op, const char *dir, struct err *e)
{
	auto_json json_t *meta = NULL;

	if (read_meta(dir, &meta, e) < 0)
		return -1;
	for (size_t i = 0; i < b->n_vms; i++) {
		op_progress(op, i, b->n_vms, "loading %s", b->vms[i].spec->name);
		b->vms[i].runner_waits = had_runner(meta, &b->vms[i]);
		if (load_vm(&b->vms[i], op, dir, e) < 0)
			return err_wrap(e, "VM %s", b->vms[i].spec->name);
	}
	for (size_t i = 0; i < b->n_vms; i++)
		if (qemu_vm_continue(&b->vms[i], op, e) < 0)
			return -1;
	for (size_t i = 0; i < b->n_vms; i++)
		if (refresh(&b->vms[i], op, e) < 0)
			return err_wrap(e, "VM %s", b->vms[i].spec->name);
	qemu_sandbox_keep(b);
	return 0;
}

/* The VMs from before are gone and those of the snapshot did not start: all are dead, and say why.
 */
static void fail_all(struct qemu_sandbox *b, const struct err *why)
{
	for (size_t i = 0; i < b->n_vms; i++) {
		qemu_vm_end(&b->vms[i], why->msg);
		qemu_vm_bury(&b->vms[i], why);
	}
}

static int go_back(struct qemu_sandbox *b, const struct op *op, const char *dir, struct err *e)
{
	for (size_t i = 0; i < b->n_vms; i++)
		qemu_vm_end(&b->vms[i], "the sandbox goes back to a snapshot");
	for (size_t i = 0; i < b->n_vms; i++)
		if (qemu_disk_copy(&b->vms[i], op, dir, b->dir, e) < 0)
			return -1;
	return load_all(b, op, dir, e);
}

int qemu_restore(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e)
{
	struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;
	auto_turn struct turn *held = NULL;
	auto_free char *dir = NULL;
	struct err why;

	if (check_name(name, e) < 0 || turn_take(&b->saving, op, e) < 0)
		return -1;
	held = &b->saving;
	if (find(b, name, &dir, e) < 0)
		return -1;
	if (go_back(b, op, dir, e) == 0)
		return 0;
	err_set(&why, ERR_UNAVAILABLE, "going back to snapshot %s failed: %.700s", name, e->msg);
	fail_all(b, &why);
	return -1;
}

/* ---- copies of a sandbox ---- */

/* Makes the VM a copy of the other one, with its addresses and its template. */
static int adopt(const struct qemu_vm *from, struct qemu_vm *vm, struct err *e)
{
	vm->mac_base = from->mac_base;
	vm->serviced = from->serviced;
	if (from->template)
		vm->template = templates_again(vm->env->templates, from->template);
	snprintf(vm->cold_reason, sizeof(vm->cold_reason), "%s", from->cold_reason);
	if (qemu_files_initrd(vm, e) < 0)
		return -1;
	return from->spec->cloud_init ? qemu_disk_link_seed(from, vm, e) : 0;
}

static int fill_from(struct qemu_sandbox *from, struct qemu_sandbox *b, const struct op *op,
	const char *dir, struct err *e)
{
	for (size_t i = 0; i < b->n_vms; i++)
		if (adopt(&from->vms[i], &b->vms[i], e) < 0 ||
			qemu_disk_copy(&b->vms[i], op, dir, b->dir, e) < 0)
			return -1;
	return load_all(b, op, dir, e);
}

int qemu_create_from(struct driver_sandbox *sandbox, const struct op *op, const char *name,
	const struct sandbox_request *req, struct driver_sandbox **ret, struct err *e)
{
	struct qemu_sandbox *from = (struct qemu_sandbox *)sandbox, *b;
	auto_free char *dir = NULL;

	if (find(from, name, &dir, e) < 0 || qemu_sandbox_new(from->d, op, req, from, &b, e) < 0)
		return -1;
	/* The ports of this host that the spec names are those of the first. */
	if (fill_from(from, b, op, dir, e) < 0 || qemu_sandbox_forward(b, op, true, e) < 0) {
		qemu_sandbox_undo(b, op);
		return -1;
	}
	*ret = &b->base;
	return 0;
}

/* ---- listing and removing ---- */

static int describe(const struct qemu_sandbox *b, const char *name, json_t *list, struct err *e)
{
	auto_free char *dir = NULL;
	auto_json json_t *meta = NULL;

	if (path_of(b, name, &dir, e) < 0 || read_meta(dir, &meta, e) < 0)
		return -1;
	json_object_del(meta, RUNNERS);
	json_object_set_new(meta, "name", json_string(name));
	json_object_set_new(meta, "size", json_integer((json_int_t)dir_bytes(dir)));
	return json_array_append(list, meta) < 0 ? err_oom(e) : 0;
}

int qemu_snapshots(struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e)
{
	struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;
	auto_turn struct turn *held = NULL;
	auto_json json_t *list = json_array();
	auto_free char *dir = NULL;
	auto_dir DIR *d = NULL;
	struct dirent *ent;

	if (turn_take(&b->saving, op, e) < 0)
		return -1;
	held = &b->saving;
	if (str_printf(&dir, e, "%s/snapshots", b->dir) < 0)
		return -1;
	d = opendir(dir); /* there is none before the first snapshot */
	while (d && (ent = readdir(d)))
		if (ent->d_name[0] != '.' && describe(b, ent->d_name, list, e) < 0)
			return -1;
	*ret = json_incref(list);
	return 0;
}

int qemu_snapshot_rm(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e)
{
	struct qemu_sandbox *b = (struct qemu_sandbox *)sandbox;
	auto_turn struct turn *held = NULL;
	auto_free char *dir = NULL;

	if (check_name(name, e) < 0 || turn_take(&b->saving, op, e) < 0)
		return -1;
	held = &b->saving;
	return find(b, name, &dir, e) < 0 ? -1 : dir_remove(dir, e);
}
