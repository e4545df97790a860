/*
 * Something is left when a server did not answer while a sandbox was removed, or when the daemon
 * that made it was killed. The cleaner tries again and again, with pauses that grow.
 */
#include "driver/proxmox/cleanup/cleaner.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/proxmox/cleanup/reclaim.h"
#include "driver/proxmox/cleanup/rows.h"
#include "driver/proxmox/site/access.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/site/sandbox.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/thread/parallel.h"
#include "util/system/log.h"
#include "util/thread/thread.h"

#define ENTRY_SECONDS 180.0
#define PAUSE_LEAST   2.0
#define PAUSE_MOST    60.0

struct pass {
	struct pve_driver *d;
	struct pve_rows rows; /* what is being removed */
	json_t *asked;        /* object: by site, "" if it answers, else why not */
	struct lock mu;       /* guards what follows */
	unsigned left;
	json_t *dirty; /* object: "site node" of what is left */
};

static void note_left(struct pass *p, const struct journal_entry *t, const struct err *why)
{
	auto_json json_t *ref = json_loads(t->ref, 0, NULL);
	const char *at = json_string_value(json_object_get(ref, "at"));
	const char *node = json_string_value(json_object_get(ref, "node"));
	char key[512];

	auto_unlock struct lock *held = lock_take(&p->mu);
	p->left++;
	if (!at || !node)
		return;
	snprintf(key, sizeof(key), "%s %s", at, node);
	json_object_set_new(p->dirty, key, json_text(why->msg));
}

/* Asks the site of an entry, unless that was done in this pass or its sandbox lives: waiting for
 * one site would keep the others waiting. */
static void ask_site(struct pass *p, const struct op *op, const struct journal_entry *t)
{
	auto_json json_t *ref = json_loads(t->ref, 0, NULL);
	const char *at = json_string_value(json_object_get(ref, "at"));
	struct pve_site *site;
	struct err e;
	bool answers;

	if (!at || json_object_get(p->asked, at) || pve_sandbox_lives(p->d, t->sandbox))
		return;
	answers = pve_access_site(p->d, at, &site, &e) == 0 &&
		  pve_do(pve_site_api(site), op, "GET", NULL, PVE_BRIEF, NULL, &e, "/version") == 0;
	json_object_set_new(p->asked, at, json_text(answers ? "" : e.msg));
}

/* Fails if the site of an entry does not answer. 1: it was not asked, since the sandbox lived a
 * moment ago; the next pass asks it. */
static int check_site(struct pass *p, const struct journal_entry *t, struct err *e)
{
	auto_json json_t *ref = json_loads(t->ref, 0, NULL);
	const char *at = json_string_value(json_object_get(ref, "at"));
	const char *why = at ? json_string_value(json_object_get(p->asked, at)) : "";

	if (!why)
		return 1;
	return *why ? err_set(e, ERR_UNAVAILABLE, "%s", why) : 0;
}

static int clean_entry(
	struct pass *p, const struct journal_entry *t, const struct op *op, struct err *e)
{
	struct op part = op_within(op, ENTRY_SECONDS);
	struct err ignored;
	int rc = check_site(p, t, e);

	if (rc != 0) {
		auto_unlock struct lock *held = lock_take(&p->mu);
		p->left += rc > 0;
		return rc < 0 ? -1 : 0;
	}
	if (pve_reclaim(&p->d->base, &part, t, e) < 0 ||
		journal_gone(p->d->env->journal, t->row, e) < 0)
		return -1;
	log_msg(op, LOG_INFO, "reclaimed %s of sandbox %s", t->kind, t->sandbox);
	/* It stays until the daemon starts again: that costs nothing. */
	if (journal_sandbox_remove_if_empty(p->d->env->journal, t->sandbox, &ignored) < 0)
		log_err(op, LOG_ERROR, &ignored, "cleaning");
	return 0;
}

static int clean_row(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct pass *p = arg;
	const struct journal_entry *t = &p->rows.v[i];
	struct err why;

	if (pve_sandbox_lives(p->d, t->sandbox))
		return 0;
	if (op_cancelled(op))
		return err_set(e, ERR_CANCELLED, "cancelled");
	if (clean_entry(p, t, op, &why) < 0) {
		log_err(op, LOG_WARN, &why, "%s of sandbox %s is still there", t->kind, t->sandbox);
		note_left(p, t, &why);
	}
	return 0;
}

/* Instances on which something is left are set aside; those on which nothing is left any more
 * are used again. */
static void judge(struct pve_driver *d, const json_t *dirty)
{
	auto_unlock struct lock *held = lock_take(&d->mu);

	for (struct pve_inst *i = d->insts; i; i = i->next) {
		char key[512];
		const char *why;

		snprintf(key, sizeof(key), "%s %s", i->site->key, i->node);
		why = json_string_value(json_object_get(dirty, key));
		if (why) {
			i->state = PVE_INST_DIRTY;
			snprintf(i->why, sizeof(i->why), "%.255s", why);
		} else if (i->state == PVE_INST_DIRTY) {
			i->state = PVE_INST_OK;
		}
	}
}

/* Removes several at once: so networks share an apply. */
static void clean_some(struct pass *p, bool vms)
{
	auto_pve_rows struct pve_rows rows = {0};
	struct err e;

	if (pve_rows_read(p->d->env->journal, NULL, vms, &rows, &e) == 0) {
		p->rows = rows;
		for (size_t i = 0; i < rows.n; i++)
			ask_site(p, &p->d->cleaner_op, &rows.v[i]);
		if (parallel_run(&p->d->cleaner_op, PARALLEL_MAX, rows.n, clean_row, p, &e) == 0)
			return;
	}
	if (e.kind != ERR_CANCELLED)
		log_err(&p->d->cleaner_op, LOG_ERROR, &e, "cleaning");
}

/* How many journal entries are left. */
static unsigned clean_once(struct pve_driver *d)
{
	auto_json json_t *dirty = json_object(), *asked = json_object();
	struct pass p = {.d = d, .dirty = dirty, .asked = asked};
	struct err e;

	lock_init(&p.mu, "pass.mu", LOCK_LEAF);
	/* VMs first: networks and files cannot be removed while VMs use them. */
	clean_some(&p, true);
	clean_some(&p, false);
	lock_done(&p.mu);
	if (op_cancelled(&d->cleaner_op))
		return 0;
	judge(d, dirty);
	if (pve_access_save(d, &e) < 0)
		log_err(&d->cleaner_op, LOG_ERROR, &e, "logins");
	return p.left;
}

static void *clean(void *arg)
{
	struct pve_driver *d = arg;
	double pause = PAUSE_LEAST;

	for (;;) {
		unsigned left = clean_once(d);
		struct op part = d->cleaner_op;
		struct err e;
		uint64_t n;

		if (left)
			part = op_within(&d->cleaner_op, pause);
		pause = left && pause * 2 < PAUSE_MOST ? pause * 2 : PAUSE_LEAST;
		if (op_wait_fd(&part, d->cleaner_fd, POLLIN, &e) < 0 && e.kind == ERR_CANCELLED)
			return NULL;
		if (read(d->cleaner_fd, &n, sizeof(n)) == (ssize_t)sizeof(n))
			pause = PAUSE_LEAST;
	}
}

int pve_cleaner_start(struct pve_driver *d, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&d->mu);

	if (d->cleaner_runs)
		return 0;
	if (thread_start(&d->cleaner, "pve-cleaner", clean, d, e) < 0)
		return -1;
	d->cleaner_runs = true;
	return 0;
}

void pve_cleaner_wake(struct pve_driver *d)
{
	uint64_t one = 1;
	struct err e;

	if (pve_cleaner_start(d, &e) < 0)
		log_err(NULL, LOG_ERROR, &e, "cannot clean in the background");
	else if (write(d->cleaner_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: it will wake up */
}

void pve_cleaner_stop(struct pve_driver *d)
{
	bool runs;

	{
		auto_unlock struct lock *held = lock_take(&d->mu);
		runs = d->cleaner_runs;
	}
	if (!runs)
		return;
	op_cancel(&d->cleaner_op);
	thread_join(d->cleaner);
}
