#include "driver/qemu/sandbox.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "driver/qemu/net.h"
#include "driver/qemu/vm/container.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/log.h"
#include "wire/sha256.h"

#define ROOM_SECONDS     2.0
#define SHORTAGE_SECONDS 10.0

static int journal_entry(struct qemu_sandbox *b, const char *kind, const char *ref, struct err *e)
{
	struct journal_entry t = {.sandbox = b->id, .driver = "qemu", .kind = kind, .ref = ref};
	int64_t row;

	return journal_intent(b->d->env->journal, &t, &row, e);
}

static void sandbox_free(struct qemu_sandbox *b)
{
	for (size_t i = 0; i < b->n_vms; i++)
		qemu_vm_free(&b->vms[i]);
	net_close(b->net);
	free(b->vms);
	free(b->dir);
	turn_done(&b->saving);
	free(b);
}

/* The name has a hash of the path: many directories may have a box.ova, and each gets an image of
 * its own. */
static int name_ova(const char *path, char **ret, struct err *e)
{
	enum { BASE_MAX = 40, DIGITS = 12 }; /* an image's name may have 64 */
	const char *base = strrchr(path, '/');
	char hex[SHA256_HEX + 1];
	struct sha256 s;

	sha256_start(&s);
	sha256_add(&s, path, strlen(path));
	sha256_end(&s, hex);
	if (str_printf(ret, e, "ova-%.*s-%.*s", BASE_MAX, base ? base + 1 : path, DIGITS, hex) < 0)
		return -1;
	for (char *c = *ret; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '-';
	return 0;
}

/* An OVA becomes an image under a name of its own; importing the same file again changes nothing.
 */
static int import_ova(struct qemu_sandbox *b, const struct op *op, const char *path,
	char **ret_digest, struct err *e)
{
	auto_image struct image *image = NULL;
	auto_free char *name = NULL;
	struct import_req req = {.path = path};

	if (name_ova(path, &name, e) < 0)
		return -1;
	req.name = name;
	if (store_import(b->d->env->store, op, &req, &image, e) < 0)
		return -1;
	return str_dup(image->digest, ret_digest, e);
}

static int use_image(struct qemu_sandbox *b, const struct op *op, struct qemu_vm *vm, struct err *e)
{
	const struct source_spec *source = &vm->spec->source;
	auto_free char *digest = NULL;

	if (source->kind == SPEC_SOURCE_OVA && import_ova(b, op, source->ova, &digest, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	return store_use(b->d->env->store, digest ? digest : qemu_source_name(source), &vm->image,
		&vm->use, e);
}

static bool holds_windows(const struct image *image)
{
	enum spec_os os;
	struct err ignored;

	return spec_os_find(image->os_type, &os, &ignored) == 0 && spec_os_is_windows(os);
}

/* Even if this fails, the VM can be freed. */
static int init_vm(struct qemu_sandbox *b, const struct op *op, size_t i, struct err *e)
{
	struct qemu_vm *vm = &b->vms[i];
	const struct vm_spec *spec = &b->spec->vms[i];

	b->n_vms = i + 1;
	if (qemu_vm_init(vm,
		    &(struct qemu_vm_where){.env = b->d->env,
			    .sandbox = b->id,
			    .dir = b->dir,
			    .spec = spec,
			    .sandbox_spec = b->spec,
			    .index = i,
			    .net = b->net,
			    .kvm = b->d->kvm},
		    e) < 0)
		return -1;
	if (use_image(b, op, vm, e) < 0)
		return -1;
	if (vm->image->container &&
		container_make(vm->image->container, spec, &vm->container, e) < 0)
		return err_wrap(e, "VM %s", spec->name);
	vm->user = spec->user ? spec->user : vm->container ? vm->container->user : vm->image->user;
	vm->windows = spec_os_is_windows(spec->os_type) || holds_windows(vm->image);
	return 0;
}

static int sandbox_new(struct qemu_driver *d, const char *id, const struct sandbox_spec *spec,
	struct qemu_sandbox **ret, struct err *e)
{
	struct qemu_sandbox *b = calloc(1, sizeof(*b));
	bool made = false;

	if (!b)
		return err_oom(e);
	b->base.driver = &d->base;
	b->d = d;
	b->spec = spec;
	snprintf(b->id, sizeof(b->id), "%s", id);
	turn_init(&b->saving);
	b->vms = calloc(spec->n_vms, sizeof(*b->vms));
	if (!b->vms)
		err_oom(e);
	else if (getrandom(&b->random, sizeof(b->random), 0) != sizeof(b->random))
		err_sys(e, errno, "getrandom");
	else if (str_printf(&b->dir, e, "%s/%s", d->root, id) == 0)
		made = true;
	if (!made) {
		sandbox_free(b);
		return -1;
	}
	*ret = b;
	return 0;
}

void qemu_sandbox_keep(struct qemu_sandbox *b)
{
	for (size_t i = 0; i < b->n_vms; i++)
		qemu_vm_keep(&b->vms[i]);
	net_keep_captures(b->net);
}

int qemu_sandbox_remove(struct qemu_sandbox *b, const struct op *op, struct err *e)
{
	auto_free char *dir = NULL;
	char id[sizeof(b->id)];
	struct journal *j = b->d->env->journal;
	struct op soon, later;
	struct err late;
	bool said = false;

	memcpy(id, b->id, sizeof(id));
	dir = take_ptr(&b->dir);
	sandbox_free(b);
	/* A full disk has room again when the kernel has taken QEMU apart, a moment after its end,
	 * or stays full. Open files may be short for longer. */
	soon = op_within(op, ROOM_SECONDS);
	later = op_within(op, SHORTAGE_SECONDS);
	while (dir_remove(dir, e) < 0 || journal_sandbox_remove(j, id, e) < 0) {
		if (!err_is_shortage(e))
			return -1;
		if (!said)
			log_err(op, LOG_WARN, e, "sandbox %s cannot be removed yet", id);
		said = true;
		if (op_pause(e->sys == ENOSPC ? &soon : &later, 0.02, &late) < 0)
			return -1;
	}
	return 0;
}

static int fill_sandbox(struct qemu_sandbox *b, const struct op *op, struct err *e)
{
	if (journal_entry(b, "dir", b->dir, e) < 0 || journal_entry(b, "processes", b->id, e) < 0)
		return -1;
	if (dir_make(b->dir, 0700, e) < 0 ||
		qemu_net_open(b->d->env, op, b->id, b->spec, b->random, b->lack, &b->net, e) < 0)
		return -1;
	for (size_t i = 0; i < b->spec->n_vms; i++)
		if (init_vm(b, op, i, e) < 0)
			return -1;
	return 0;
}

void qemu_sandbox_undo(struct qemu_sandbox *b, const struct op *op)
{
	struct op cleanup = op_for_cleanup(QEMU_CLEANUP_SECONDS);
	struct err undo;

	if (qemu_sandbox_remove(b, &cleanup, &undo) < 0)
		log_err(op, LOG_ERROR, &undo, "cannot remove what was made");
}

int qemu_sandbox_new(struct qemu_driver *d, const struct op *op, const struct sandbox_request *req,
	const struct qemu_sandbox *like, struct qemu_sandbox **ret, struct err *e)
{
	struct qemu_sandbox *b = NULL;

	if (sandbox_new(d, req->id, req->spec, &b, e) < 0)
		return -1;
	if (like)
		b->random = like->random;
	if (fill_sandbox(b, op, e) < 0) {
		qemu_sandbox_undo(b, op);
		return -1;
	}
	*ret = b;
	return 0;
}
