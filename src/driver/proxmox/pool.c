/*
 * Sandboxes of one pool stand in one queue, whoever their clients are: the first waits for an
 * instance that has room, the others until they are the first. An instance that cannot be asked is
 * left out for a while. One with leftovers of ours is left out until they are gone.
 */
#include "driver/proxmox/pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/proxmox/cleanup/cleaner.h"
#include "driver/proxmox/network/claims.h"
#include "driver/proxmox/site/access.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"

#define LOOK_SECONDS  3.0 /* other users of the server may free memory */
#define AWAY_SECONDS  1.0 /* between looks whether a server is back */
#define ASIDE_SECONDS 15
enum { KEEP_MB = 256 };

struct pve_waiter {
	struct pve_waiter *next;
	int fd; /* eventfd: something has changed */
};

struct offer { /* an instance that has room */
	struct pve_inst *inst;
	int64_t room_mb;
	json_t *vms;
};

static void wake_locked(struct pve_pool *p)
{
	uint64_t one = 1;

	if (p->first && write(p->first->fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: it will wake up */
}

static struct pve_pool *find_pool_locked(struct pve_driver *d, const char *id, struct err *e)
{
	struct pve_pool *p;

	for (p = d->pools; p; p = p->next)
		if (strcmp(p->id, id) == 0)
			return p;
	p = calloc(1, sizeof(*p));
	if (!p || str_dup(id, &p->id, e) < 0) {
		free(p);
		err_oom(e);
		return NULL;
	}
	p->next = d->pools;
	d->pools = p;
	return p;
}

static int join(struct pve_driver *d, const char *id, struct pve_waiter *w, struct pve_pool **ret,
	struct err *e)
{
	struct pve_waiter **at;

	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0)
		return err_sys(e, errno, "eventfd");
	auto_unlock struct lock *held = lock_take(&d->mu);
	*ret = find_pool_locked(d, id, e);
	if (!*ret) {
		close(w->fd);
		return -1;
	}
	for (at = &(*ret)->first; *at;)
		at = &(*at)->next;
	*at = w;
	(*ret)->waiting++;
	return 0;
}

static void leave(struct pve_driver *d, struct pve_pool *p, struct pve_waiter *w)
{
	{
		auto_unlock struct lock *held = lock_take(&d->mu);
		for (struct pve_waiter **at = &p->first; *at; at = &(*at)->next)
			if (*at == w) {
				*at = w->next;
				break;
			}
		p->waiting--;
		wake_locked(p);
	}
	close(w->fd);
}

/* ---- instances that are out of order ---- */

static void set_aside(struct pve_driver *d, struct pve_inst *inst, enum pve_inst_state state,
	const struct err *why)
{
	auto_unlock struct lock *held = lock_take(&d->mu);

	if (inst->state == PVE_INST_DIRTY && state == PVE_INST_FAILED)
		return;
	inst->state = state;
	inst->look_again_ns = now_ns() + ASIDE_SECONDS * INT64_C(1000000000);
	snprintf(inst->why, sizeof(inst->why), "%.255s", why->msg);
}

void pve_inst_failed(struct pve_driver *d, struct pve_inst *inst, const struct err *why)
{
	set_aside(d, inst, PVE_INST_FAILED, why);
}

void pve_inst_dirty(struct pve_driver *d, struct pve_inst *inst, const struct err *why)
{
	set_aside(d, inst, PVE_INST_DIRTY, why);
}

/* ---- room ---- */

static int64_t mb(const json_t *bytes)
{
	return (int64_t)json_number_value(bytes) / (1024 * 1024);
}

/* Memory that running VMs may still touch counts as used. */
static int64_t untouched_mb(const json_t *vms)
{
	const json_t *vm;
	int64_t sum = 0;
	size_t i;

	json_array_foreach((json_t *)vms, i, vm) {
		const char *status = json_string_value(json_object_get(vm, "status"));
		int64_t rest = mb(json_object_get(vm, "maxmem")) - mb(json_object_get(vm, "mem"));

		if (status && strcmp(status, "running") == 0 && rest > 0)
			sum += rest;
	}
	return sum;
}

int pve_room_ask(struct pve_inst *inst, const struct op *op, struct pve_room *ret, json_t **ret_vms,
	struct err *e)
{
	struct pve_api *api = pve_site_api(inst->site);
	auto_json json_t *vms = NULL, *status = NULL;
	const json_t *memory;

	if (pve_do(api, op, "GET", NULL, PVE_BRIEF, &vms, e, "/nodes/%s/qemu", inst->node) < 0 ||
		pve_do(api, op, "GET", NULL, PVE_BRIEF, &status, e, "/nodes/%s/status",
			inst->node) < 0)
		return -1;
	memory = json_object_get(status, "memory");
	ret->total_mb = mb(json_object_get(memory, "total"));
	ret->left_mb = mb(json_object_get(memory, "available"));
	if (!json_object_get(memory, "available"))
		ret->left_mb = mb(json_object_get(memory, "free"));
	ret->left_mb -= untouched_mb(vms) + KEEP_MB;
	if (ret_vms)
		*ret_vms = take_ptr(&vms);
	return 0;
}

/* Whether an instance has room for the sandbox. 1: yes; 0: not now, with the reason in e; -1: it
 * cannot be asked, or is too small for ever. */
static int look(struct pve_sandbox *b, struct pve_inst *inst, const struct op *op, struct offer *o,
	struct err *e)
{
	auto_json json_t *vms = NULL;
	struct pve_room room = {0};
	unsigned max, sandboxes;
	uint64_t promised;

	{
		auto_unlock struct lock *held = lock_take(&b->d->mu);
		max = inst->max_sandboxes;
		sandboxes = inst->sandboxes;
		promised = inst->promised_mb;
	}
	if (max && sandboxes >= max) {
		err_set(e, ERR_BUSY, "%s has %u of %u sandboxes", inst->id, sandboxes, max);
		return 0;
	}
	if (max) {
		if (pve_do(pve_site_api(inst->site), op, "GET", NULL, PVE_BRIEF, &vms, e,
			    "/nodes/%s/qemu", inst->node) < 0)
			return -1;
		room.left_mb = (int64_t)(max - sandboxes);
	} else {
		if (pve_room_ask(inst, op, &room, &vms, e) < 0)
			return -1;
		room.left_mb -= (int64_t)promised;
		if ((int64_t)b->ram_mb > room.total_mb - KEEP_MB)
			return err_set(e, ERR_INVALID,
				"the sandbox needs %" PRIu64 " MB, and node %s has only %" PRId64,
				b->ram_mb, inst->node, room.total_mb);
		if (room.left_mb < (int64_t)b->ram_mb) {
			err_set(e, ERR_BUSY, "%s has %" PRId64 " MB left of the %" PRIu64 " needed",
				inst->id, room.left_mb < 0 ? 0 : room.left_mb, b->ram_mb);
			return 0;
		}
	}
	*o = (struct offer){.inst = inst, .room_mb = room.left_mb, .vms = take_ptr(&vms)};
	return 1;
}

/* Whether an instance is worth asking. 0 with the reason in e if not now, -1 if it is out of
 * order. desperate: no other instance can be used, so also ask one that has just failed. */
static int usable(struct pve_sandbox *b, struct pve_inst *inst, bool desperate, struct err *e)
{
	{
		auto_unlock struct lock *held = lock_take(&b->d->mu);

		if (inst->disabled) {
			err_set(e, ERR_BUSY, "%s is disabled", inst->id);
			return 0;
		}
		if (inst->state == PVE_INST_DIRTY) {
			err_set(e, ERR_BUSY, "%s is being cleaned: %s", inst->id, inst->why);
			return 0;
		}
		if (inst->state == PVE_INST_FAILED && now_ns() < inst->look_again_ns && !desperate)
			return err_set(e, ERR_UNAVAILABLE, "%s: %s", inst->id, inst->why);
	}
	if (pve_claims_clash(b, inst->site)) {
		err_set(e, ERR_BUSY, "%s: another sandbox has the same network or MAC", inst->id);
		return 0;
	}
	return 1;
}

struct choice {
	struct offer best;
	unsigned n, alive, away; /* away: may be back soon */
	struct err wait;         /* why there is no room at the moment */
	struct err broken;       /* why an instance cannot be used */
};

static void consider(struct choice *c, struct offer o)
{
	if (c->best.inst && o.room_mb <= c->best.room_mb) {
		json_decref(o.vms);
		return;
	}
	json_decref(c->best.vms);
	c->best = o;
}

/* Looks at every instance of the pool; -1 only if op has ended. */
static int look_around(struct pve_sandbox *b, const struct op *op, struct pve_inst *const *insts,
	const char *pool, bool desperate, struct choice *c, struct err *e)
{
	*c = (struct choice){0};
	for (size_t i = 0; insts[i]; i++) {
		struct offer o = {0};
		int got;

		if (strcmp(insts[i]->pool, pool) != 0)
			continue;
		c->n++;
		got = usable(b, insts[i], desperate, e);
		if (got > 0) {
			got = look(b, insts[i], op, &o, e);
			if (got < 0 && (e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT)) {
				json_decref(c->best.vms);
				return -1;
			}
			if (got < 0 && e->kind != ERR_INVALID)
				pve_inst_failed(b->d, insts[i], e);
		}
		if (got < 0) {
			c->broken = *e;
			c->away += e->kind == ERR_UNAVAILABLE &&
				   pve_api_patience(pve_site_api(insts[i]->site)) > 0;
			continue;
		}
		c->alive++;
		if (got == 0)
			c->wait = *e;
		else
			consider(c, o);
	}
	return 0;
}

/* Chooses the instance with the most room: 1 and *ret; 0 and the reason in e if none has room
 * now, or all are away (ERR_UNAVAILABLE); -1 if none can ever be used. */
static int choose(struct pve_sandbox *b, const struct op *op, struct pve_inst *const *insts,
	const char *pool, struct offer *ret, struct err *e)
{
	struct choice c;

	if (look_around(b, op, insts, pool, false, &c, e) < 0 ||
		(!c.alive && look_around(b, op, insts, pool, true, &c, e) < 0))
		return -1;
	if (!c.n)
		return err_set(e, ERR_NOT_FOUND, "pool: no server of pool %s is configured", pool);
	if (!c.alive) {
		*e = c.broken;
		if (c.away)
			return 0;
		return err_wrap(e, "no server of pool %s can be used", pool);
	}
	*ret = c.best;
	if (!c.best.inst)
		*e = c.wait;
	return c.best.inst != NULL;
}

/* Chooses an instance, and claims there what networks and MACs the spec insists on, before the
 * next sandbox looks. */
static int choose_and_claim(struct pve_sandbox *b, const struct op *op,
	struct pve_inst *const *insts, const char *pool, struct offer *ret, struct err *e)
{
	int rc = choose(b, op, insts, pool, ret, e);

	if (rc <= 0 || pve_claims_take(b, ret->inst->site, e) == 0)
		return rc;
	/* A sandbox of another pool was faster. */
	json_decref(ret->vms);
	*ret = (struct offer){0};
	return e->kind == ERR_BUSY ? 0 : -1;
}

static void enter_instance(struct pve_sandbox *b, struct pve_inst *inst)
{
	pve_site_enter(inst->site);
	b->entered = true;
	auto_unlock struct lock *held = lock_take(&b->d->mu);

	inst->state = PVE_INST_OK;
	inst->sandboxes++;
	inst->promised_mb += b->ram_mb;
	b->promised = true;
	b->inst = inst;
	b->site = inst->site;
}

static bool is_first(struct pve_driver *d, struct pve_pool *p, const struct pve_waiter *w)
{
	auto_unlock struct lock *held = lock_take(&d->mu);

	return p->first == w;
}

/* Waits until something has changed. The first in the queue also looks again after a while,
 * because servers tell nobody that they have room. */
static int wait_a_while(
	struct pve_waiter *w, const struct op *op, bool first, bool away, struct err *e)
{
	struct op part = first ? op_within(op, away ? AWAY_SECONDS : LOOK_SECONDS) : *op;
	uint64_t n;

	if (op_wait_fd(&part, w->fd, POLLIN, e) < 0)
		return op_check(op, e);
	if (read(w->fd, &n, sizeof(n)) < 0)
		return op_check(op, e);
	return 0;
}

static const char *pool_name(const struct sandbox_spec *spec, struct pve_inst *const *insts)
{
	/* Without a pool in the spec, the client's first instance says which. */
	return spec->pool ? spec->pool : insts[0] ? insts[0]->pool : "default";
}

int pve_pool_enter(struct pve_sandbox *b, const struct op *op, struct pve_inst *const *insts,
	json_t **ret_vms, struct err *e)
{
	const char *name = pool_name(b->spec, insts);
	struct pve_waiter w = {0};
	struct pve_pool *pool;
	struct offer o = {0};
	char said[256] = "";
	bool away;
	int rc;

	if (!insts[0])
		return err_set(e, ERR_INVALID,
			"no Proxmox server is configured: set PROXMOX_HOST and its companions, or "
			"PROXMOX_CONFIG_FILE");
	if (join(b->d, name, &w, &pool, e) < 0)
		return -1;
	for (;;) {
		bool first = is_first(b->d, pool, &w);

		rc = first ? choose_and_claim(b, op, insts, name, &o, e) : 0;
		if (!first)
			err_set(e, ERR_BUSY, "others came first");
		if (rc != 0)
			break;
		away = e->kind == ERR_UNAVAILABLE;
		if (strncmp(said, e->msg, sizeof(said) - 1) != 0)
			op_progress(op, 0, 0,
				away ? "waiting for a server of pool %s: %s"
				     : "waiting for room in pool %s: %s",
				name, e->msg);
		snprintf(said, sizeof(said), "%.255s", e->msg);
		rc = wait_a_while(&w, op, first, away, e);
		if (rc < 0)
			break;
	}
	if (rc > 0)
		enter_instance(b, o.inst);
	leave(b->d, pool, &w);
	if (rc < 0)
		return -1;
	*ret_vms = o.vms;
	return 0;
}

void pve_pool_started(struct pve_sandbox *b)
{
	auto_unlock struct lock *held = lock_take(&b->d->mu);

	if (b->promised)
		b->inst->promised_mb -= b->ram_mb;
	b->promised = false;
}

void pve_pool_leave(struct pve_sandbox *b)
{
	if (!b->inst)
		return;
	pve_pool_started(b);
	auto_unlock struct lock *held = lock_take(&b->d->mu);
	b->inst->sandboxes--;
	b->inst = NULL;
	for (struct pve_pool *p = b->d->pools; p; p = p->next)
		wake_locked(p);
}

/* ---- moat pool ---- */

static json_t *inst_to_json_locked(const struct pve_inst *i)
{
	static const char *const states[] = {"ok", "failed", "dirty"};

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:o}", "pool", i->pool, "instance",
		i->id, "server", i->site->key, "node", i->node, "state",
		i->disabled ? "disabled" : states[i->state], "sandboxes", (int)i->sandboxes,
		"max_sandboxes", (int)i->max_sandboxes, "detail",
		json_text(i->state == PVE_INST_OK ? "" : i->why));
}

static bool fits(const struct pve_inst *i, const char *pool, const char *instance)
{
	return (!pool || strcmp(pool, i->pool) == 0) && (!instance || strcmp(instance, i->id) == 0);
}

static json_t *list_pools(struct pve_driver *d, const char *pool, const char *instance)
{
	json_t *insts = json_array(), *queues = json_object();
	auto_unlock struct lock *held = lock_take(&d->mu);

	for (struct pve_inst *i = d->insts; i; i = i->next)
		if (fits(i, pool, instance))
			json_array_append_new(insts, inst_to_json_locked(i));
	for (struct pve_pool *p = d->pools; p; p = p->next)
		if (!pool || strcmp(pool, p->id) == 0)
			json_object_set_new(queues, p->id, json_integer(p->waiting));
	return json_pack("{s:o, s:o}", "instances", insts, "waiting", queues);
}

static unsigned change(
	struct pve_driver *d, const char *pool, const char *instance, const char *action)
{
	unsigned n = 0;
	auto_unlock struct lock *held = lock_take(&d->mu);

	for (struct pve_inst *i = d->insts; i; i = i->next) {
		if (!fits(i, pool, instance))
			continue;
		n++;
		if (strcmp(action, "clean") == 0) {
			i->look_again_ns = 0;
			if (i->state == PVE_INST_FAILED)
				i->state = PVE_INST_OK;
		} else {
			i->disabled = strcmp(action, "disable") == 0;
		}
	}
	for (struct pve_pool *p = d->pools; p; p = p->next)
		wake_locked(p);
	return n;
}

int pve_pool_op(
	struct driver *base, const struct op *op, const json_t *args, json_t **ret, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	const char *action = "ls", *pool = NULL, *instance = NULL;
	auto_free struct pve_inst **insts = NULL;
	json_t *access = NULL;

	(void)op;
	if (json_get((json_t *)args, "args", e, "{s?s, s?s, s?s, s?o}", "action", &action, "pool",
		    &pool, "instance", &instance, "access", &access) < 0 ||
		pve_access_read(d, access, &insts, e) < 0)
		return -1;
	if (strcmp(action, "ls") != 0) {
		if (strcmp(action, "clean") != 0 && strcmp(action, "enable") != 0 &&
			strcmp(action, "disable") != 0)
			return err_set(e, ERR_INVALID,
				"action is \"ls\", \"clean\", \"disable\" or \"enable\"");
		if (change(d, pool, instance, action) == 0)
			return err_set(e, ERR_NOT_FOUND, "no such server in pool %s",
				pool ? pool : "(any)");
		if (strcmp(action, "clean") == 0)
			pve_cleaner_wake(d);
	}
	*ret = list_pools(d, pool, instance);
	return *ret ? 0 : err_oom(e);
}
