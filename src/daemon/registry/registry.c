#include "daemon/registry/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "daemon/registry/describe.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"

enum {
	ID_BYTES = 5,
	PREFIX_MIN = 4,
};

#define LOOK_AGAIN 0.01 /* seconds between looks at a sandbox that is seized */

struct registry {
	struct bell changes;
	struct lock mu;
	struct sandbox *first;
};

int registry_new(struct registry **ret, struct err *e)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return err_oom(e);
	lock_init(&r->mu, "registry.mu", LOCK_OUTER);
	bell_init(&r->changes);
	*ret = r;
	return 0;
}

static void sandbox_free(struct sandbox *sb)
{
	spec_free(sb->spec);
	json_decref(sb->labels);
	commands_done(&sb->commands);
	touches_done(&sb->touches);
	screens_done(&sb->screens);
	if (sb->idle_fd >= 0)
		close(sb->idle_fd);
	free(sb);
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	while (r->first) {
		struct sandbox *sb = r->first;

		r->first = sb->next;
		sandbox_free(sb);
	}
	lock_done(&r->mu);
	bell_done(&r->changes);
	free(r);
}

struct bell *registry_changes(struct registry *r)
{
	return &r->changes;
}

static void unref_locked(struct sandbox *sb)
{
	if (--sb->refs == 0)
		sandbox_free(sb);
}

unsigned spec_total_ram(const struct sandbox_spec *spec, const struct driver *driver)
{
	unsigned long long sum = 0;

	if (!driver->ops->on_this_host)
		return 0;
	for (size_t i = 0; i < spec->n_vms; i++)
		sum += spec->vms[i].ram_mb + driver->vm_overhead_mb;
	return sum > UINT32_MAX / 2 ? UINT32_MAX / 2 : (unsigned)sum;
}

static struct sandbox *find_name_locked(struct registry *r, const char *name)
{
	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		if (*name && strcmp(sb->name, name) == 0)
			return sb;
	return NULL;
}

static int check_name_locked(struct registry *r, const char *name, struct err *e)
{
	const struct sandbox *other = find_name_locked(r, name);

	if (!other)
		return 0;
	return err_set(e, ERR_INVALID, "sandbox %s is called %s already; `moat rm %s` removes it",
		other->id, name, name);
}

int registry_check_name(struct registry *r, const char *name, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	return check_name_locked(r, name, e);
}

static int number_copy_locked(
	struct registry *r, const char *name, char ret[NAME_SIZE], struct err *e)
{
	for (unsigned k = 1;; k++) {
		if (name_of_copy(name, k, ret, e) < 0)
			return -1;
		if (!find_name_locked(r, ret))
			return 0;
	}
}

/* Gives the sandbox its name and labels. */
static int label_locked(struct sandbox *sb, const char *name, json_t *labels, struct err *e)
{
	auto_json json_t *with_name = NULL;

	if (name) {
		with_name = json_copy(labels);
		if (!with_name || json_object_set_new(with_name, "name", json_string(name)) < 0)
			return err_oom(e);
		snprintf(sb->name, sizeof(sb->name), "%s", name);
		labels = with_name;
	}
	json_decref(sb->labels);
	sb->labels = json_incref(labels);
	return 0;
}

static int add_locked(
	struct registry *r, struct sandbox *sb, const struct sandbox_new *req, struct err *e)
{
	char of_copy[NAME_SIZE];
	const char *name = req->name;

	if (name && req->copy) {
		if (number_copy_locked(r, name, of_copy, e) < 0)
			return -1;
		name = of_copy;
	} else if (name && check_name_locked(r, name, e) < 0) {
		return -1;
	}
	if (label_locked(sb, name, req->labels, e) < 0)
		return -1;
	sb->next = r->first;
	r->first = sb;
	return 0;
}

int registry_add(
	struct registry *r, const struct sandbox_new *req, struct sandbox **ret, struct err *e)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));
	uint8_t random[ID_BYTES];
	bool added;

	if (!sb)
		return err_oom(e);
	sb->idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (sb->idle_fd < 0 || getrandom(random, sizeof(random), 0) != sizeof(random)) {
		err_sys(e, errno, "new sandbox");
		if (sb->idle_fd >= 0)
			close(sb->idle_fd);
		free(sb);
		return -1;
	}
	str_hex(random, sizeof(random), sb->id);
	sb->driver = req->driver;
	sb->spec = req->spec;
	sb->lease = req->lease;
	sb->owner_pid = req->owner_pid;
	sb->maker = req->maker;
	sb->created = time(NULL);
	sb->ram_mb = req->ram_mb;
	sb->standby = req->standby;
	commands_init(&sb->commands);
	touches_init(&sb->touches);
	if (req->touches)
		touches_copy(&sb->touches, req->touches);
	screens_init(&sb->screens);
	sb->refs = 2; /* the list's and the caller's */
	{
		auto_unlock struct lock *held = lock_take(&r->mu);
		added = add_locked(r, sb, req, e) == 0;
	}
	if (!added) {
		sb->spec = NULL; /* still the caller's */
		sandbox_free(sb);
		return -1;
	}
	bell_ring(&r->changes);
	json_decref(req->labels); /* the sandbox has its own reference */
	*ret = sb;
	return 0;
}

void registry_set_spec(struct registry *r, struct sandbox *sb, struct sandbox_spec *spec)
{
	struct sandbox_spec *old;

	{
		auto_unlock struct lock *held = lock_take(&r->mu);
		old = sb->spec;
		sb->spec = spec;
		bell_ring(&r->changes);
	}
	spec_free(old);
}

int registry_running(struct registry *r, struct sandbox *sb, struct driver_sandbox *driven,
	bool detach, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	if (sb->state != SANDBOX_CREATING)
		return err_set(
			e, ERR_CANCELLED, "sandbox %s was removed while it was made", sb->id);
	sb->state = SANDBOX_RUNNING;
	sb->maker = NULL;
	sb->driven = driven;
	if (detach)
		sb->lease = 0;
	bell_ring(&r->changes);
	return 0;
}

static struct sandbox *find_id_locked(struct registry *r, const char *id)
{
	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		if (strcmp(sb->id, id) == 0)
			return sb;
	return NULL;
}

/* Finds a sandbox by its id, else by its name, else by the beginning of its id. */
static int find_locked(struct registry *r, const char *which, struct sandbox **ret, struct err *e)
{
	struct sandbox *found = find_id_locked(r, which);
	size_t len = strlen(which);
	char safe[64];

	str_escape(which, len, safe, sizeof(safe));
	if (!found)
		found = find_name_locked(r, which);
	if (found) {
		*ret = found;
		return 0;
	}
	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		if (len >= PREFIX_MIN && strncmp(sb->id, which, len) == 0) {
			if (found)
				return err_set(
					e, ERR_INVALID, "several sandboxes begin with %s", safe);
			found = sb;
		}
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "no sandbox %s; see what there is: moat ls", safe);
	*ret = found;
	return 0;
}

/* 1: borrowed; 0: another borrower has seized it. */
static int try_borrow(
	struct registry *r, const char *id, struct op *op, struct borrower *ret, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	struct sandbox *sb;

	if (find_locked(r, id, &sb, e) < 0)
		return -1;
	if (sb->state != SANDBOX_RUNNING)
		return err_set(e, ERR_UNAVAILABLE, "sandbox %s is %s", sb->id,
			sandbox_state_name(sb->state));
	/* A standby sandbox must be unused: whatever one client changed, the next would find. */
	if (sb->standby)
		return err_set(e, ERR_UNAVAILABLE,
			"sandbox %s is in standby: `up` of its spec hands it over", sb->id);
	if (sb->seized)
		return 0;
	*ret = (struct borrower){.sb = sb, .driven = sb->driven, .op = op, .next = sb->borrowers};
	sb->borrowers = ret;
	sb->refs++;
	return 1;
}

int registry_borrow(
	struct registry *r, const char *id, struct op *op, struct borrower *ret, struct err *e)
{
	int got;

	while ((got = try_borrow(r, id, op, ret, e)) == 0)
		if (op_pause(op, LOOK_AGAIN, e) < 0)
			return -1;
	return got < 0 ? -1 : 0;
}

static int seize(struct registry *r, struct borrower *b, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	if (b->sb->seized)
		return err_set(e, ERR_BUSY, "sandbox %s is being restored", b->sb->id);
	b->sb->seized = true;
	for (struct borrower *other = b->sb->borrowers; other; other = other->next)
		if (other != b) {
			other->restored = true;
			op_cancel(other->op);
		}
	return 0;
}

static bool is_alone(struct registry *r, const struct borrower *b)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	return b->sb->borrowers == b && !b->next;
}

int registry_seize(struct registry *r, struct borrower *b, struct err *e)
{
	if (seize(r, b, e) < 0)
		return -1;
	b->seized = true;
	while (!is_alone(r, b))
		if (op_pause(b->op, LOOK_AGAIN, e) < 0)
			return -1;
	return 0;
}

void registry_return(struct registry *r, struct borrower *b)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	struct sandbox *sb = b->sb;
	uint64_t one = 1;

	for (struct borrower **at = &sb->borrowers; *at; at = &(*at)->next)
		if (*at == b) {
			*at = b->next;
			break;
		}
	if (b->seized)
		sb->seized = false;
	if (!sb->borrowers && write(sb->idle_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
	unref_locked(sb);
}

int registry_detach(struct registry *r, const char *id, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	struct sandbox *sb;

	if (find_locked(r, id, &sb, e) < 0)
		return -1;
	if (sb->standby)
		return err_set(e, ERR_UNAVAILABLE, "sandbox %s is in standby", sb->id);
	sb->lease = 0;
	bell_ring(&r->changes);
	return 0;
}

/* Takes a sandbox out of standby, and wakes the request that kept it: it may make another. */
static void leave_standby_locked(struct sandbox *sb)
{
	struct standby *st = take_ptr(&sb->standby);
	uint64_t one = 1;

	if (st && write(st->wake_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
}

bool sandbox_is_dead_locked(const struct sandbox *sb)
{
	struct vm_info info;

	for (unsigned i = 0; sb->driven && i < sb->spec->n_vms; i++) {
		sb->driver->ops->describe(sb->driven, i, &info);
		if (info.state == VM_DEAD)
			return true;
	}
	return false;
}

/* The oldest sandbox that is ready; those of the taker's own session come first. */
static struct sandbox *find_ready_locked(struct registry *r, const struct sandbox_taker *by)
{
	struct sandbox *found = NULL;

	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		if (sb->standby && sb->state == SANDBOX_RUNNING &&
			strcmp(sb->standby->key, by->key) == 0 && !sandbox_is_dead_locked(sb) &&
			(!found || found->lease != by->lease || sb->lease == by->lease))
			found = sb; /* the last that fits: the list begins with the youngest */
	return found;
}

int registry_take_standby(
	struct registry *r, const struct sandbox_taker *by, struct borrower *ret, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	struct sandbox *sb = find_ready_locked(r, by);

	if (!sb)
		return 0;
	if ((by->name && check_name_locked(r, by->name, e) < 0) ||
		label_locked(sb, by->name, by->labels, e) < 0)
		return -1;
	sb->standby->taken++;
	leave_standby_locked(sb);
	sb->lease = by->lease;
	sb->owner_pid = by->owner_pid;
	*ret = (struct borrower){.sb = sb, .driven = sb->driven, .op = by->op};
	sb->borrowers = ret;
	sb->refs++;
	bell_ring(&r->changes);
	return 1;
}

struct standby_figures registry_standby(struct registry *r, const struct standby *st)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	struct standby_figures f = {.taken = st->taken};

	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		if (sb->standby == st) {
			bool dead = sandbox_is_dead_locked(sb);

			f.ready += sb->state == SANDBOX_RUNNING && !dead;
			f.dead += sb->state == SANDBOX_RUNNING && dead;
			f.making += sb->state == SANDBOX_CREATING;
		}
	return f;
}

struct sandbox *registry_start_removal(
	struct registry *r, sandbox_filter fits, void *arg, struct driver_sandbox **ret_sandbox)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	for (struct sandbox *sb = r->first; sb; sb = sb->next) {
		/* A sandbox that is being made is removed by its maker, which the caller cancels.
		 */
		if (sb->state != SANDBOX_RUNNING || !fits(sb, arg))
			continue;
		sb->state = SANDBOX_REMOVING;
		bell_ring(&r->changes);
		leave_standby_locked(sb);
		sb->refs++;
		*ret_sandbox = take_ptr(&sb->driven);
		for (struct borrower *b = sb->borrowers; b; b = b->next) {
			b->sandbox_gone = true;
			op_cancel(b->op);
		}
		return sb;
	}
	return NULL;
}

unsigned registry_cancel_making(struct registry *r, sandbox_filter fits, void *arg)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	unsigned n = 0;

	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		if (sb->state == SANDBOX_CREATING && fits(sb, arg)) {
			sb->unwanted = true;
			op_cancel(sb->maker);
			n++;
		}
	return n;
}

unsigned registry_count_removing(struct registry *r, sandbox_filter fits, void *arg)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	unsigned n = 0;

	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		n += sb->state == SANDBOX_REMOVING && fits(sb, arg);
	return n;
}

int registry_wait_idle(struct registry *r, struct sandbox *sb, const struct op *op, struct err *e)
{
	uint64_t count;

	for (;;) {
		{
			auto_unlock struct lock *held = lock_take(&r->mu);
			if (!sb->borrowers)
				return 0;
			if (read(sb->idle_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
				return err_sys(e, errno, "eventfd");
		}
		if (op_wait_fd(op, sb->idle_fd, POLLIN, e) < 0)
			return -1;
	}
}

void registry_forget(struct registry *r, struct sandbox *sb)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	for (struct sandbox **at = &r->first; *at; at = &(*at)->next)
		if (*at == sb) {
			*at = sb->next;
			sb->refs--; /* the list's; the caller still has one */
			bell_ring(&r->changes);
			break;
		}
	unref_locked(sb);
}

void registry_unref(struct registry *r, struct sandbox *sb)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	unref_locked(sb);
}

int registry_explain(struct registry *r, const struct borrower *b, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	if (b->sandbox_gone && e->kind == ERR_CANCELLED)
		err_set(e, ERR_UNAVAILABLE, "sandbox %s was removed", b->sb->id);
	else if (b->restored && e->kind == ERR_CANCELLED)
		err_set(e, ERR_UNAVAILABLE, "sandbox %s went back to a snapshot", b->sb->id);
	return -1;
}

int registry_explain_making(struct registry *r, const struct sandbox *sb, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	if (sb->unwanted && e->kind == ERR_CANCELLED)
		err_set(e, ERR_UNAVAILABLE, "sandbox %s was removed while it was made", sb->id);
	return -1;
}

int registry_resolve(struct registry *r, const char *which, char ret_id[16], struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	struct sandbox *sb;

	if (find_locked(r, which, &sb, e) < 0)
		return -1;
	memcpy(ret_id, sb->id, sizeof(sb->id));
	return 0;
}

bool registry_has(struct registry *r, const char *id)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	return find_id_locked(r, id);
}

unsigned registry_count(struct registry *r)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	unsigned n = 0;

	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		n++;
	return n;
}

int registry_to_json(struct registry *r, const char *id, json_t **ret, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);
	auto_json json_t *all = json_array();
	struct sandbox *one = NULL;

	if (id && find_locked(r, id, &one, e) < 0)
		return -1;
	for (struct sandbox *sb = r->first; sb; sb = sb->next)
		if (!one || sb == one)
			json_array_insert_new(all, 0, sandbox_to_json_locked(sb));
	*ret = json_incref(all);
	return 0;
}
