/* Operations on the daemon itself and on servers: doctor, gc, pool, info, shutdown. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/doctor.h"
#include "daemon/removal.h"
#include "daemon/stale.h"
#include "daemon/request.h"
#include "driver/accel.h"
#include "util/json.h"
#include "util/thread/lock.h"

struct checkup {
	const char *driver;
	json_t *checks;
};

static void add_check(void *arg, const struct check *c)
{
	static const char *const states[] = {"ok", "warn", "missing"};
	struct checkup *up = arg;
	json_t *j = json_pack("{s:s, s:s, s:s, s:o}", "driver", up->driver, "name", c->name,
		"state", states[c->state], "detail", json_text(c->detail));

	if (j && c->fix[0])
		json_object_set_new(j, "fix", json_text(c->fix));
	json_array_append_new(up->checks, j);
}

static void check_config(const struct daemon *d, struct checkup *up)
{
	struct check c = {.name = "config", .state = CHECK_MISSING};

	if (!d->config_wrong.kind)
		return;
	up->driver = "daemon";
	snprintf(
		c.detail, sizeof(c.detail), "%.*s", (int)sizeof(c.detail) - 1, d->config_wrong.msg);
	snprintf(c.fix, sizeof(c.fix), "edit %.200s; until then moat does not start",
		d->paths.config);
	add_check(up, &c);
}

int handle_doctor(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *checks = json_array();
	struct checkup up = {.checks = checks};
	const char *only = NULL;
	json_t *access = NULL;
	struct driver *drv;

	if (json_get(rq->args, "args", e, "{s?s, s?o}", "driver", &only, "access", &access) < 0)
		return -1;
	/* Without a driver's name only the local one is checked: few have a server, or Vagrant. */
	if (daemon_driver(rq->daemon, only ? only : driver_qemu.name, &drv, e) < 0)
		return -1;
	check_config(rq->daemon, &up);
	up.driver = drv->ops->name;
	if (drv->ops->doctor(drv, &rq->op, access, add_check, &up, e) < 0)
		return -1;
	up.driver = "images";
	if (!only && doctor_images(rq->daemon->recipes, add_check, &up, e) < 0)
		return -1;
	return json_make(ret, e, "{s:O}", "checks", checks);
}

struct collection {
	json_t *removed, *failed; /* lines of text */
};

static void add_removed(void *arg, const char *text)
{
	json_array_append_new(((struct collection *)arg)->removed, json_text(text));
}

static void add_failed(void *arg, const char *why)
{
	json_array_append_new(((struct collection *)arg)->failed, json_text(why));
}

/*
 * After a crash, gc is often what starts the daemon. The start has reclaimed all there was before
 * gc could be asked, so gc reports that, too.
 */
static json_t *take_start_lines(struct daemon *d)
{
	auto_unlock struct lock *held = lock_take(&d->mu);
	json_t *lines = d->reclaimed;

	d->reclaimed = NULL;
	return lines ? lines : json_array();
}

/* Tells the driver of servers that it may not know yet: something of ours may be there. */
static int enter_access(struct request *rq, json_t *access, struct err *e)
{
	auto_json json_t *args = NULL, *ignored = NULL;
	struct driver *drv;

	if (!json_object_get(access, "instances"))
		return 0; /* it is an environment for Vagrant */
	if (json_make(&args, e, "{s:O}", "access", access) < 0 ||
		daemon_driver(rq->daemon, driver_proxmox.name, &drv, e) < 0)
		return -1;
	return drv->ops->pool(drv, &rq->op, args, &ignored, e);
}

/* Goes on after a failure, and reports both what was removed and what was not. */
int handle_gc(struct request *rq, json_t **ret, struct err *e)
{
	auto_json json_t *removed = json_array(), *failed = json_array(), *before = NULL;
	struct collection c = {.removed = removed, .failed = failed};
	struct reclaim_req req = {.said = add_removed, .stays = add_failed, .arg = &c};
	json_t *access = NULL;
	int kept = 0;

	if (json_get(rq->args, "args", e, "{s?o, s?b}", "access", &access, "kept", &kept) < 0)
		return -1;
	if (access && enter_access(rq, access, e) < 0)
		add_failed(&c, e->msg);
	req.access = access;
	/* This takes a turn, so what the start began to reclaim in the background is over then. */
	if (reclaim_run(rq->daemon, &rq->op, &req, e) < 0)
		add_failed(&c, e->msg);
	if (store_gc(rq->daemon->store, &rq->op, add_removed, &c, e) < 0)
		add_failed(&c, e->msg);
	if (store_drop_kept(rq->daemon->store, kept, add_removed, &c, e) < 0)
		add_failed(&c, e->msg);
	if (templates_drop_stale(rq->daemon, add_removed, &c, e) < 0)
		add_failed(&c, e->msg);
	if (op_check(&rq->op, e) < 0)
		return -1;
	before = take_start_lines(rq->daemon);
	if (json_array_extend(before, removed) < 0)
		return err_oom(e);
	return json_make(ret, e, "{s:O, s:O}", "removed", before, "failed", failed);
}

int handle_pool(struct request *rq, json_t **ret, struct err *e)
{
	struct driver *drv;

	if (daemon_driver(rq->daemon, driver_proxmox.name, &drv, e) < 0)
		return -1;
	return drv->ops->pool(drv, &rq->op, rq->args, ret, e);
}

int handle_pool_images(struct request *rq, json_t **ret, struct err *e)
{
	struct driver *drv;

	if (daemon_driver(rq->daemon, driver_proxmox.name, &drv, e) < 0)
		return -1;
	return drv->ops->images(drv, &rq->op, rq->args, ret, e);
}

static json_t *paths_to_json(const struct paths *p)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "runtime", p->runtime, "state", p->state,
		"data", p->data, "cache", p->cache, "config", p->config, "socket", p->socket);
}

int handle_info(struct request *rq, json_t **ret, struct err *e)
{
	struct daemon *d = rq->daemon;
	struct admission_figures f;
	unsigned sessions, requests;
	struct kvm_report report;
	bool kvm = strcmp(d->config.accel, "tcg") != 0 && accel_kvm_works(&report);

	if (json_get(rq->args, "args", e, "{}") < 0)
		return -1;
	admission_figures(d->admission, &f);
	{
		auto_unlock struct lock *held = lock_take(&d->mu);
		sessions = d->sessions;
		requests = d->requests;
	}
	return json_make(ret, e, "{s:s, s:i, s:I, s:o, s:o, s:{s:I, s:I, s:I}, s:s, s:i, s:i, s:i}",
		"version", MOAT_VERSION, "pid", (int)getpid(), "uptime",
		(json_int_t)((now_ns() - d->started_ns) / 1000000000), "paths",
		paths_to_json(&d->paths), "config", config_to_json(&d->config), "memory",
		"total_mb", (json_int_t)f.total_mb, "available_mb", (json_int_t)f.available_mb,
		"committed_mb", (json_int_t)f.promised_mb, "accelerator", kvm ? "kvm" : "tcg",
		"sandboxes", (int)registry_count(d->registry), "connections", (int)sessions,
		"operations", (int)requests);
}

int handle_shutdown(struct request *rq, json_t **ret, struct err *e)
{
	unsigned left = registry_count(rq->daemon->registry);
	int force = 0;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s?b}", "force", &force) < 0)
		return -1;
	if (left && !force)
		return err_set(e, ERR_BUSY,
			"%u sandbox%s there: remove %s (moat rm), or give --force", left,
			left == 1 ? " is" : "es are", left == 1 ? "it" : "them");
	daemon_stop(rq->daemon);
	return 0;
}
