#include "driver/qemu/sandbox.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "driver/cloud-init.h"
#include "driver/health.h"
#include "driver/qemu/net.h"
#include "driver/qemu/vm/container.h"
#include "driver/qemu/vm/identity.h"
#include "driver/qemu/vm/template.h"
#include "net/ops.h"
#include "net/reach.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/log.h"
#include "wire/sha256.h"

#define ROOM_SECONDS     2.0
#define SHORTAGE_SECONDS 10.0

/* How long a VM that nobody looks into may take to show itself on its network. Nobody promised that
 * it does so at all. */
#define SEEN_SECONDS          60.0
#define SEEN_SECONDS_EMULATED 300.0

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

static const struct healthcheck_spec *check_of(const struct qemu_vm *vm)
{
	return vm->spec->healthcheck ? vm->spec->healthcheck
	       : vm->container       ? vm->container->healthcheck
				     : NULL;
}

/* Takes the link anew each time: the VM may restart while it is not well yet. */
static int wait_until_well(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct health h;
	struct guest *g;
	int rc;

	health_begin(&h, vm->spec->name, check_of(vm), vm->user);
	if (vm->container) {
		h.cwd = vm->container->cwd;
		h.env = (const char *const *)vm->container->env.v;
	}
	do {
		if (links_take(&vm->links, op, &g, e) < 0)
			return -1;
		rc = health_ask(&h, g, op, e);
		links_give(&vm->links, g);
		/* What has ended will not become well. */
		if (rc == 0 && qemu_service_check(vm, op, e) < 0)
			return -1;
	} while (rc == 0);
	return rc < 0 ? -1 : 0;
}

/* A VM that neither commands nor a healthcheck enter needs no identity. What is known of it is what
 * can be seen from outside. An installer on a CD has nothing that would answer; what it installs
 * may have, hours later. */
static bool is_looked_into(const struct qemu_vm *vm)
{
	return (vm->spec->is_sandbox && !vm->spec->cdrom) || vm->spec->healthcheck || vm->container;
}

/* Gives the VM its identity, once. */
static int make_own(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	while (!vm->identified && is_looked_into(vm)) {
		struct op boot = op_within(op, vm->env->boot_timeout);
		struct err why;

		op_progress(op, 0, 0, "waiting for %s", vm->spec->name);
		if (qemu_identify(vm, &boot, e) == 0) {
			vm->identified = true;
			break;
		}
		why = *e;
		if (!vm->copied || op_check(op, e) < 0) {
			*e = why;
			return -1;
		}
		/* It is no copy any more after that: the next try is the last. */
		if (qemu_template_give_up(vm, op, &why, e) < 0)
			return -1;
	}
	return 0;
}

/* Waits until the guest answers and its healthcheck, if it has one, has passed. */
static int await_cloud_init(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op boot = op_within(op, vm->env->boot_timeout);
	struct guest *g;
	int rc;

	if (!vm->spec->cloud_init || vm->windows)
		return 0;
	if (links_take(&vm->links, &boot, &g, e) < 0)
		return -1;
	rc = cloud_init_wait(g, &boot, vm->image->cloud_init == KNOWN_YES, e);
	links_give(&vm->links, g);
	if (rc < 0)
		qemu_vm_explain(vm, e);
	return rc < 0 ? err_wrap(e, "VM %s", vm->spec->name) : 0;
}

static int wait_inside(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op boot;
	struct guest *g;

	if (make_own(vm, op, e) < 0)
		return -1;
	boot = op_within(op, vm->env->boot_timeout);
	if (links_take(&vm->links, &boot, &g, e) < 0)
		return -1;
	links_give(&vm->links, g);
	if (vm->container ? qemu_service_start(vm, op, e) < 0
			  : qemu_await_addresses(vm, op, e) < 0 || await_cloud_init(vm, op, e) < 0)
		return -1;
	if (!check_of(vm))
		return 0;
	op_progress(op, 0, 0, "waiting for %s", vm->spec->name);
	return wait_until_well(vm, op, e);
}

static int wait_port(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op boot = op_within(op, vm->env->boot_timeout);
	unsigned port = vm->spec->ready_port;

	if (!vm->net)
		return err_set(e, ERR_UNSUPPORTED,
			"VM %s: ready_port needs networks that this host cannot make",
			vm->spec->name);
	op_progress(op, 0, 0, "waiting for port %u of %s", port, vm->spec->name);
	if (net_await_port(vm->net, &boot, vm->index, port, vm->dead_fd, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT && op_check(op, e) == 0)
		return err_set(e, ERR_TIMEOUT, "VM %s takes no connections at port %u",
			vm->spec->name, port);
	return qemu_vm_explain(vm, e);
}

static int wait_ready(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	if (is_looked_into(vm) && wait_inside(vm, op, e) < 0)
		return -1;
	return vm->spec->ready_port ? wait_port(vm, op, e) : 0;
}

/* Waits until a VM that nobody looks into answers on its network, for the sake of others. One that
 * stays silent may be as it should: that is no error. */
static int wait_seen(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	double most = vm->kvm ? SEEN_SECONDS : SEEN_SECONDS_EMULATED;
	struct op soon = op_within(op, most < vm->env->boot_timeout ? most : vm->env->boot_timeout);

	if (is_looked_into(vm) || vm->spec->ready_port || !vm->net ||
		!net_is_addressed(vm->net, vm->index))
		return 0;
	op_progress(op, 0, 0, "waiting for %s to answer on its network", vm->spec->name);
	if (net_await_answer(vm->net, &soon, vm->index, vm->dead_fd, e) == 0)
		return 0;
	if (e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
		return qemu_vm_explain(vm, e);
	op_progress(
		op, 0, 0, "%s does not answer on its network: going on without", vm->spec->name);
	log_msg(op, LOG_WARN, "%s/%s does not answer on its network", vm->sandbox, vm->spec->name);
	return 0;
}

static int start_vm(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct err why;

	if (qemu_template_choose(vm, op, e) < 0)
		return -1;
	if (qemu_vm_prepare(vm, op, e) == 0 && qemu_vm_start(vm, op, e) == 0)
		return 0;
	why = *e;
	if (!vm->copied || op_check(op, e) < 0) {
		*e = why;
		return -1;
	}
	return qemu_template_give_up(vm, op, &why, e);
}

/* Waits until another VM is as far as this one wants it. */
static int wait_for(
	struct qemu_vm *vm, enum spec_condition until, const struct op *op, struct err *e)
{
	if (until != SPEC_UNTIL_HEALTHY && !vm->container)
		return err_set(e, ERR_INVALID,
			"VM %s is not made of a container image: it has no service to wait for",
			vm->spec->name);
	if (until != SPEC_UNTIL_HEALTHY) {
		if (make_own(vm, op, e) < 0 || qemu_service_start(vm, op, e) < 0)
			return -1;
		return until == SPEC_UNTIL_COMPLETED ? qemu_service_await(vm, op, e)
						     : qemu_service_check(vm, op, e);
	}
	if (wait_ready(vm, op, e) < 0)
		return -1;
	return vm->container ? qemu_service_check(vm, op, e) : wait_seen(vm, op, e);
}

/* Waits for the VMs that this one depends on. They have been started. */
static int wait_for_others(struct qemu_sandbox *b, size_t i, const struct op *op, struct err *e)
{
	const struct vm_spec *spec = &b->spec->vms[i];

	for (size_t k = 0; k < b->spec->n_vms; k++) {
		enum spec_condition until = SPEC_UNTIL_HEALTHY;

		if (k == i || !spec_waits_for(b->spec, i, k))
			continue;
		for (size_t n = 0; n < spec->n_depends_on; n++)
			if (strcasecmp(spec->depends_on[n].vm, b->spec->vms[k].name) == 0)
				until = spec->depends_on[n].condition;
		if (wait_for(&b->vms[k], until, op, e) < 0)
			return -1;
	}
	return 0;
}

int qemu_sandbox_forward(struct qemu_sandbox *b, const struct op *op, bool any, struct err *e)
{
	for (size_t i = 0; i < b->spec->n_vms; i++)
		for (size_t k = 0; k < b->spec->vms[i].n_forwards; k++) {
			const struct forward_spec *f = &b->spec->vms[i].forwards[k];
			auto_json json_t *made = NULL;

			if (!b->net)
				return err_set(e, ERR_UNSUPPORTED,
					"forwards of VM %s: the sandbox has no network",
					b->spec->vms[i].name);
			if (net_forward(b->net, op, (unsigned)i, f->port, any ? 0 : f->host_port,
				    &made, e) < 0)
				return err_wrap(e, "forwards of VM %s", b->spec->vms[i].name);
		}
	return 0;
}

int qemu_sandbox_start(struct qemu_sandbox *b, const struct op *op, struct err *e)
{
	auto_free size_t *order = calloc(b->spec->n_vms, sizeof(size_t));

	if (!order)
		return err_oom(e);
	spec_start_order(b->spec, order);
	for (size_t i = 0; i < b->spec->n_vms; i++) {
		struct qemu_vm *vm = &b->vms[order[i]];

		if (wait_for_others(b, order[i], op, e) < 0)
			return -1;
		op_progress(op, i, b->spec->n_vms, "starting %s", vm->spec->name);
		if (start_vm(vm, op, e) < 0)
			return err_wrap(e, "VM %s", vm->spec->name);
	}
	/* While one VM asks DHCP for its address, the next one gets its identity. */
	for (size_t i = 0; i < b->spec->n_vms; i++)
		if (make_own(&b->vms[order[i]], op, e) < 0)
			return -1;
	for (size_t i = 0; i < b->spec->n_vms; i++)
		if (qemu_service_start(&b->vms[order[i]], op, e) < 0)
			return -1;
	for (size_t i = 0; i < b->spec->n_vms; i++)
		if (wait_ready(&b->vms[order[i]], op, e) < 0)
			return -1;
	if (qemu_sandbox_forward(b, op, false, e) < 0)
		return -1;
	qemu_sandbox_keep(b);
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
