#include "daemon/removal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/str.h"
#include "util/strv.h"
#include "util/thread/thread.h"

#define REMOVAL_SECONDS 60.0 /* besides the time that a driver may take */
#define LOOK_AGAIN      0.02
enum { AT_ONCE_MAX = 48 };

/* How long other threads may take to remove a sandbox. */
static struct op wait_for_others(const struct daemon *d)
{
	double longest = 0;

	for (unsigned i = 0; i < SPEC_DRIVERS; i++)
		if (d->drivers[i] && d->drivers[i]->ops->removal_seconds > longest)
			longest = d->drivers[i]->ops->removal_seconds;
	return op_for_cleanup(REMOVAL_SECONDS + longest);
}

static int remove_one(struct daemon *d, const struct op *asked, struct sandbox *sb,
	struct driver_sandbox *driven, struct err *e)
{
	struct op op = op_for_cleanup(REMOVAL_SECONDS);
	struct op destroy;

	if (registry_wait_idle(d->registry, sb, &op, e) < 0) {
		/* An operation is stuck in there. It still uses the driver's sandbox, which stays.
		 */
		return err_wrap(e, "waiting for operations in %s", sb->id);
	}
	destroy = op_for_cleanup(sb->driver->ops->removal_seconds);
	if (asked) {
		destroy.on_progress = asked->on_progress;
		destroy.progress_arg = asked->progress_arg;
	}
	return driven ? sb->driver->ops->destroy(sb->driver, &destroy, driven, e) : 0;
}

/* Makers undo what they have made by themselves. No file descriptor tells when: we look again. */
static void wait_for_makers(struct daemon *d, sandbox_filter fits, void *arg)
{
	struct op op = wait_for_others(d);
	struct err e;

	while (registry_cancel_making(d->registry, fits, arg))
		if (op_pause(&op, LOOK_AGAIN, &e) < 0)
			return;
}

/* Sandboxes that other threads are removing are gone, too, when we return. */
static void wait_for_removers(struct daemon *d, sandbox_filter fits, void *arg)
{
	struct op op = wait_for_others(d);
	struct err e;

	while (registry_count_removing(d->registry, fits, arg))
		if (op_pause(&op, LOOK_AGAIN, &e) < 0)
			return;
}

struct removing {
	struct daemon *d;
	const struct op *asked;
	sandbox_filter fits; /* called by one thread at a time, since the registry's lock is held */
	void *arg;
	struct lock mu;
	bool failed;
	struct err first;
};

static void remove_taken(struct removing *r, struct sandbox *sb, struct driver_sandbox *driven)
{
	unsigned ram_mb = sb->ram_mb;
	struct err why;

	if (remove_one(r->d, r->asked, sb, driven, &why) < 0) {
		log_err(NULL, LOG_ERROR, &why, "cannot remove all of sandbox %s", sb->id);
		auto_unlock struct lock *held = lock_take(&r->mu);
		if (!r->failed)
			r->first = why;
		r->failed = true;
	}
	/* The journal has what could not be removed: gc finds it there. */
	registry_forget(r->d->registry, sb);
	admission_leave(r->d->admission, ram_mb);
}

static void *remove_all(void *arg)
{
	struct removing *r = arg;
	struct sandbox *sb;
	struct driver_sandbox *driven = NULL;

	while ((sb = registry_start_removal(r->d->registry, r->fits, r->arg, &driven)))
		remove_taken(r, sb, driven);
	return NULL;
}

int removal_run(
	struct daemon *d, const struct op *asked, sandbox_filter fits, void *arg, struct err *e)
{
	struct removing r = {.d = d, .asked = asked, .fits = fits, .arg = arg};
	unsigned n = registry_count(d->registry), helpers = 0;
	pthread_t threads[AT_ONCE_MAX - 1];
	struct err no_thread;

	wait_for_makers(d, fits, arg);
	lock_init(&r.mu, "removing.mu", LOCK_LEAF);
	/* On a server, removing a sandbox is seconds of waiting, so several go at once. Where
	 * threads cannot be started it takes longer. */
	while (helpers + 1 < n && helpers < AT_ONCE_MAX - 1 &&
		thread_start(&threads[helpers], "remover", remove_all, &r, &no_thread) == 0)
		helpers++;
	remove_all(&r);
	for (unsigned i = 0; i < helpers; i++)
		thread_join(threads[i]);
	lock_done(&r.mu);
	wait_for_removers(d, fits, arg);
	if (r.failed)
		*e = r.first;
	return r.failed ? -1 : 0;
}

struct reclaim {
	struct daemon *d;
	const struct op *op;
	const struct reclaim_req *req;
	struct strv sandboxes; /* ids of those whose rows can go once they have no entries */
	bool failed;
	struct err first;
};

static void note_failure(struct reclaim *r, const struct err *e)
{
	log_err(r->op, LOG_ERROR, e, "cannot reclaim");
	if (r->req->stays) {
		r->req->stays(r->req->arg, e->msg);
		return;
	}
	if (!r->failed)
		r->first = *e;
	r->failed = true;
}

static bool is_due(const struct reclaim *r, const struct driver *drv)
{
	switch (r->req->when) {
	case RECLAIM_AT_START:
		return drv->ops->on_this_host;
	case RECLAIM_AFTER_START:
		return !drv->ops->on_this_host && !drv->ops->remote;
	case RECLAIM_ALL:
		return true;
	}
	return true;
}

static int reclaim_entry(void *arg, const struct journal_entry *t, struct err *e)
{
	struct reclaim *r = arg;
	struct driver *drv;
	auto_free char *text = NULL;
	bool named;

	if (registry_has(r->d->registry, t->sandbox))
		return 0;
	named = strcmp(t->ref, t->sandbox) != 0; /* the entry has a name besides its sandbox's */
	if (str_printf(&text, e, "%s of sandbox %s%s%s", t->kind, t->sandbox, named ? ": " : "",
		    named ? t->ref : "") < 0)
		return -1;
	if (daemon_driver(r->d, t->driver, &drv, e) < 0) {
		err_wrap(e, "%s", text);
		note_failure(r, e);
		return 0;
	}
	if (!is_due(r, drv))
		return 0;
	if (drv->ops->reclaim(drv, r->op, t, r->req->access, e) < 0 ||
		journal_gone(r->d->journal, t->row, e) < 0) {
		err_wrap(e, "%s", text);
		note_failure(r, e);
		return 0;
	}
	log_msg(r->op, LOG_INFO, "reclaimed %s", text);
	r->req->said(r->req->arg, text);
	return 0;
}

static int list_sandbox(void *arg, const struct journal_sandbox *sb, struct err *e)
{
	struct reclaim *r = arg;

	(void)e;
	if (!registry_has(r->d->registry, sb->id))
		strv_add(&r->sandboxes, sb->id);
	return 0;
}

static bool known_sandbox(void *arg, const char *id)
{
	return registry_has(((struct reclaim *)arg)->d->registry, id);
}

static void swept(void *arg, const char *what)
{
	struct reclaim *r = arg;

	log_msg(r->op, LOG_INFO, "removed %s, which no journal knew", what);
	r->req->said(r->req->arg, what);
}

int reclaim_run(struct daemon *d, const struct op *op, const struct reclaim_req *req, struct err *e)
{
	struct reclaim r = {.d = d, .op = op, .req = req};
	int rc = -1;

	if (turn_take(&d->reclaiming, op, e) < 0)
		return -1;
	if (journal_each_entry(d->journal, NULL, reclaim_entry, &r, e) < 0)
		goto out;
	if (journal_each_sandbox(d->journal, list_sandbox, &r, e) < 0)
		goto out;
	for (size_t i = 0; i < r.sandboxes.n; i++)
		if (journal_sandbox_remove_if_empty(d->journal, r.sandboxes.v[i], e) < 0)
			goto out;
	for (unsigned i = 0; i < SPEC_DRIVERS; i++) {
		struct driver *drv = d->drivers[i];

		if (drv && drv->ops->sweep && is_due(&r, drv) &&
			drv->ops->sweep(drv, op, known_sandbox, swept, &r, e) < 0)
			note_failure(&r, e);
	}
	if (r.failed)
		*e = r.first;
	rc = r.failed ? -1 : 0;
out:
	turn_give(&d->reclaiming);
	strv_free(&r.sandboxes);
	return rc;
}
