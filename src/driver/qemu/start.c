#include "driver/qemu/start.h"

#include <strings.h>

#include "driver/cloud-init.h"
#include "driver/health.h"
#include "driver/qemu/vm/container.h"
#include "driver/qemu/vm/identity.h"
#include "driver/qemu/vm/template.h"
#include "net/ops.h"
#include "net/reach.h"
#include "util/auto.h"
#include "util/system/log.h"
#include "util/thread/parallel.h"

/* How long a VM that nobody looks into may take to show itself on its network. Nobody promised that
 * it does so at all. */
#define SEEN_SECONDS          60.0
#define SEEN_SECONDS_EMULATED 300.0

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
		/* A service that has ended will not become well. */
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

/* VMs that are started at the same time. */
struct batch {
	struct qemu_sandbox *b;
	size_t vms[SPEC_VMS_MAX], n;
	size_t before; /* how many VMs have been started already */
};

static int start_one(void *arg, size_t i, const struct op *op, struct err *e)
{
	const struct batch *batch = arg;
	struct qemu_vm *vm = &batch->b->vms[batch->vms[i]];

	op_progress(op, batch->before, batch->b->spec->n_vms, "starting %s", vm->spec->name);
	return start_vm(vm, op, e) < 0 ? err_wrap(e, "VM %s", vm->spec->name) : 0;
}

/* The next VMs, in the order of the spec, up to one that waits for a VM among them. */
static void next_batch(struct batch *batch, const size_t *order)
{
	const struct sandbox_spec *spec = batch->b->spec;

	batch->before += batch->n;
	batch->n = 0;
	for (size_t next = batch->before; next < spec->n_vms; next++) {
		for (size_t k = 0; k < batch->n; k++)
			if (spec_waits_for(spec, order[next], batch->vms[k]))
				return;
		batch->vms[batch->n++] = order[next];
	}
}

static int start_all(struct qemu_sandbox *b, const struct op *op, struct err *e)
{
	struct batch batch = {.b = b};
	size_t order[SPEC_VMS_MAX];

	spec_start_order(b->spec, order);
	for (next_batch(&batch, order); batch.n; next_batch(&batch, order)) {
		for (size_t i = 0; i < batch.n; i++)
			if (wait_for_others(b, batch.vms[i], op, e) < 0)
				return -1;
		if (parallel_run(op, PARALLEL_MAX, batch.n, start_one, &batch, e) < 0)
			return -1;
	}
	return 0;
}

static int make_one_own(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct qemu_sandbox *b = arg;

	return make_own(&b->vms[i], op, e);
}

static int finish_one(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct qemu_sandbox *b = arg;

	return qemu_service_start(&b->vms[i], op, e) < 0 ? -1 : wait_ready(&b->vms[i], op, e);
}

int qemu_sandbox_start(struct qemu_sandbox *b, const struct op *op, struct err *e)
{
	size_t n = b->spec->n_vms;

	/* Services come last: they may look for each other. */
	if (start_all(b, op, e) < 0 || parallel_run(op, PARALLEL_MAX, n, make_one_own, b, e) < 0 ||
		parallel_run(op, PARALLEL_MAX, n, finish_one, b, e) < 0 ||
		qemu_sandbox_forward(b, op, false, e) < 0)
		return -1;
	qemu_sandbox_keep(b);
	return 0;
}
