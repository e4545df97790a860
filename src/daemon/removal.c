#include "daemon/removal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/str.h"
#include "util/strv.h"

#define REMOVAL_SECONDS 60.0 /* besides what a driver itself may take */
#define LOOK_AGAIN      0.02
enum { AT_ONCE_MAX = 16 };

/* For sandboxes that somebody else is removing. */
static struct op wait_for_others(const struct daemon *d)
{
	double longest = 0;

	for (unsigned i = 0; i < SPEC_DRIVERS; i++)
		if (d->drivers[i] && d->drivers[i]->ops->removal_seconds > longest)
			longest = d->drivers[i]->ops->removal_seconds;
	return op_for_cleanup(REMOVAL_SECONDS + longest);
}

static int remove_one(struct daemon *d, struct sandbox *sb, struct box *box, struct err *e)
{
	struct op op = op_for_cleanup(REMOVAL_SECONDS);
	struct op destroy;

	if (registry_wait_idle(d->registry, sb, &op, e) < 0) {
		/* Somebody is stuck inside; the box must not be pulled from under them. */
		return err_wrap(e, "waiting for operations in %s", sb->id);
	}
	destroy = op_for_cleanup(sb->driver->ops->removal_seconds);
	return box ? sb->driver->ops->destroy(sb->driver, &destroy, box, e) : 0;
}

/* The making of a sandbox is ended by its maker; there is nothing to wait on but its absence. */
static void wait_for_makers(struct daemon *d, sandbox_filter fits, void *arg)
{
	struct op op = wait_for_others(d);
	struct err e;

	while (registry_cancel_making(d->registry, fits, arg))
		if (op_pause(&op, LOOK_AGAIN, &e) < 0)
			return;
}

/* Those that somebody else is removing are gone when we return, too. */
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
	sandbox_filter fits; /* called under the registry's lock: by one thread at a time */
	void *arg;
	pthread_mutex_t mu;
	bool failed;
	struct err first;
};

static void remove_taken(struct removing *r, struct sandbox *sb, struct box *box)
{
	unsigned ram_mb = sb->ram_mb;
	struct err why;

	if (remove_one(r->d, sb, box, &why) < 0) {
		log_err(NULL, LOG_ERROR, &why, "cannot remove all of sandbox %s", sb->id);
		auto_unlock pthread_mutex_t *held = lock_take(&r->mu);
		if (!r->failed)
			r->first = why;
		r->failed = true;
	}
	/* What did not go is in the journal, where gc finds it; the registry's job is done. */
	registry_forget(r->d->registry, sb);
	admission_leave(r->d->admission, ram_mb);
}

static void *remove_all(void *arg)
{
	struct removing *r = arg;
	struct sandbox *sb;
	struct box *box = NULL;

	while ((sb = registry_start_removal(r->d->registry, r->fits, r->arg, &box)))
		remove_taken(r, sb, box);
	return NULL;
}

int removal_run(struct daemon *d, sandbox_filter fits, void *arg, struct err *e)
{
	struct removing r = {.d = d, .fits = fits, .arg = arg};
	unsigned n = registry_count(d->registry), helpers = 0;
	pthread_t threads[AT_ONCE_MAX - 1];

	wait_for_makers(d, fits, arg);
	pthread_mutex_init(&r.mu, NULL);
	/* On a server, removing one takes seconds of waiting. Without helpers it takes longer. */
	while (helpers + 1 < n && helpers < AT_ONCE_MAX - 1 &&
		pthread_create(&threads[helpers], NULL, remove_all, &r) == 0)
		helpers++;
	remove_all(&r);
	for (unsigned i = 0; i < helpers; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&r.mu);
	wait_for_removers(d, fits, arg);
	if (r.failed)
		*e = r.first;
	return r.failed ? -1 : 0;
}

struct reclaim {
	struct daemon *d;
	const struct op *op;
	const struct reclaim_req *req;
	struct strv sandboxes; /* ids whose rows are done with */
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

static int reclaim_thing(void *arg, const struct journal_thing *t, struct err *e)
{
	struct reclaim *r = arg;
	struct driver *drv;
	auto_free char *text = NULL;
	bool named;

	if (registry_has(r->d->registry, t->sandbox))
		return 0;
	named = strcmp(t->ref, t->sandbox) != 0; /* by more than its sandbox */
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
	if (journal_each_thing(d->journal, NULL, reclaim_thing, &r, e) < 0)
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
