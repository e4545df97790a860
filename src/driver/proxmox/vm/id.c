/*
 * The server's "next free number" reserves nothing, so several clients may be told the same.
 * Threads of this daemon reserve theirs in pve_site.ids; when another client was faster, the next
 * number is tried.
 */
#include "driver/proxmox/vm/id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/api/task.h"
#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/vm/remove.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"

#define LOCK_PAUSE 0.3
enum { TAKEN_TRIES = 30, LOST_TRIES = 3, ID_MAX = 999999999 };

static bool is_reserved_locked(const struct pve_site *s, unsigned id)
{
	for (size_t i = 0; i < ARRAY_LEN(s->ids); i++)
		if (s->ids[i] == id)
			return true;
	return false;
}

/* False: all slots of pve_site.ids are in use at the moment. */
static bool enter_locked(struct pve_site *s, unsigned id)
{
	for (size_t i = 0; i < ARRAY_LEN(s->ids); i++)
		if (!s->ids[i]) {
			s->ids[i] = id;
			return true;
		}
	return false;
}

static bool reserve(struct pve_site *s, unsigned *id)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	while (is_reserved_locked(s, *id))
		++*id;
	return enter_locked(s, *id);
}

bool pve_id_keep(struct pve_site *s, unsigned id)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	return !is_reserved_locked(s, id) && enter_locked(s, id);
}

void pve_id_release(struct pve_site *s, unsigned id)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	for (size_t i = 0; i < ARRAY_LEN(s->ids); i++)
		if (s->ids[i] == id)
			s->ids[i] = 0;
}

/* Reserves a free number of at least `least`: lower ones were found to be taken. */
static int pick(
	struct pve_sandbox *b, const struct op *op, unsigned least, unsigned *ret, struct err *e)
{
	auto_json json_t *next = NULL;
	const char *text;
	json_int_t id;

	if (pve_do(b->api, op, "GET", NULL, 0, &next, e, "/cluster/nextid") < 0)
		return -1;
	text = json_string_value(next);
	id = text ? strtoll(text, NULL, 10) : json_integer_value(next);
	if (id < 100 || id > ID_MAX)
		return err_set(e, ERR_BACKEND, "the server has no number for a VM");
	*ret = (unsigned)id < least ? least : (unsigned)id;
	while (!reserve(b->site, ret))
		if (op_pause(op, 0.1, e) < 0)
			return -1;
	return 0;
}

int pve_run_in_turn(
	struct pve_sandbox *b, const struct op *op, const struct pve_vm_call *call, struct err *e)
{
	auto_json __attribute__((unused)) json_t *used = call->params;
	struct op turn = op_within(op, call->seconds);
	struct pve_once once = {.node = b->inst->node, .type = call->once};
	char id[16];
	struct err late;

	snprintf(id, sizeof(id), "%u", call->vmid);
	once.id = id;
	while (pve_run_once(b->api, op, call->once ? &once : NULL, call->method,
		       json_incref(call->params), call->flags, e, "/nodes/%s/qemu/%u/%s",
		       b->inst->node, call->vmid, call->path) < 0) {
		if (!pve_says_vm_locked(e, call->vmid))
			return -1;
		op_progress(op, 0, 0, "waiting for a lock: %.200s", e->msg);
		if (op_pause(&turn, LOCK_PAUSE, &late) < 0)
			return -1;
	}
	return 0;
}

/* The connection was lost while a VM was made. 1: it is there, and complete; 0: it is not, and
 * will not be; -1: that cannot be known now. */
static int look_for_lost(struct pve_sandbox *b, const struct op *op, unsigned vmid, struct err *e)
{
	struct pve_removal vm = {
		.node = b->inst->node, .stamp = b->stamp, .vmid = vmid, .maybe_coming = true};

	op_progress(op, 0, 0, "looking whether VM %u was made", vmid);
	return pve_vm_await(b->api, op, &vm, e);
}

int pve_vm_new(struct pve_sandbox *b, const struct op *op, const char *kind,
	int (*make)(void *arg, unsigned vmid, const struct op *op, struct err *e), void *arg,
	unsigned *ret_vmid, int64_t *ret_row, struct err *e)
{
	unsigned least = 0, taken = 0, lost = 0;

	for (;;) {
		unsigned id;
		int64_t row;
		char name[16];
		struct err why, lost_why, ignored;
		int rc, there = 0;

		if (pick(b, op, least, &id, e) < 0)
			return -1;
		snprintf(name, sizeof(name), "%u", id);
		if (pve_entry_intent(b, kind, name, &row, e) < 0) {
			pve_id_release(b->site, id);
			return -1;
		}
		rc = make(arg, id, op, e);
		why = *e;
		if (rc < 0 && why.kind == ERR_UNAVAILABLE)
			there = look_for_lost(b, op, id, &lost_why);
		if (there < 0 && lost_why.kind == ERR_BACKEND)
			why = lost_why;
		pve_id_release(b->site, id);
		if (rc == 0 || there > 0) {
			*ret_vmid = id;
			*ret_row = row;
			return journal_done(b->d->env->journal, row, e);
		}
		if (pve_says_vmid_taken(e, id) && ++taken <= TAKEN_TRIES) {
			/* The VM of this number is another client's. */
			if (journal_gone(b->d->env->journal, row, e) < 0)
				return -1;
			least = id + 1;
			continue;
		}
		if (why.kind == ERR_UNAVAILABLE && there == 0 && ++lost <= LOST_TRIES) {
			op_progress(op, 0, 0, "trying again: %.200s", why.msg);
			if (journal_gone(b->d->env->journal, row, &ignored) == 0)
				continue;
		}
		*e = why;
		return -1;
	}
}
