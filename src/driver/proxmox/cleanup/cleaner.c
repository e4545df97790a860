/*
 * The cleaner: a thread that removes what could not be removed when it should have been, because a
 * server did not answer, or because the daemon that made it was killed. It also finds, on request,
 * what carries our stamp and no journal knows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/pve.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/str.h"

#define ONE_THING_SECONDS 180.0
#define PAUSE_LEAST       2.0
#define PAUSE_MOST        60.0

struct pass {
	struct pve_driver *d;
	bool vms; /* or all else */
	unsigned left;
	json_t *dirty; /* object: "site node" of what is left */
};

bool pve_box_lives(struct pve_driver *d, const char *id)
{
	auto_unlock pthread_mutex_t *held = lock_take(&d->mu);

	for (struct pve_box *b = d->boxes; b; b = b->next)
		if (strcmp(b->id, id) == 0)
			return true;
	return false;
}

static void note_left(struct pass *p, const struct journal_thing *t, const struct err *why)
{
	auto_json json_t *ref = json_loads(t->ref, 0, NULL);
	const char *at = json_string_value(json_object_get(ref, "at"));
	const char *node = json_string_value(json_object_get(ref, "node"));
	char key[512];

	p->left++;
	if (!at || !node)
		return;
	snprintf(key, sizeof(key), "%s %s", at, node);
	json_object_set_new(p->dirty, key, json_text(why->msg));
}

static int clean_thing(void *arg, const struct journal_thing *t, struct err *e)
{
	struct pass *p = arg;
	struct op op = op_within(&p->d->cleaner_op, ONE_THING_SECONDS);
	struct err why;

	if (strcmp(t->driver, PVE_NAME) != 0 || pve_thing_is_vm(t) != p->vms ||
		pve_box_lives(p->d, t->sandbox))
		return 0;
	if (op_cancelled(&p->d->cleaner_op))
		return err_set(e, ERR_CANCELLED, "cancelled");
	if (pve_reclaim(&p->d->base, &op, t, &why) < 0 ||
		journal_gone(p->d->env->journal, t->row, &why) < 0) {
		log_err(&p->d->cleaner_op, LOG_WARN, &why, "%s of sandbox %s is still there",
			t->kind, t->sandbox);
		note_left(p, t, &why);
		return 0;
	}
	log_msg(&p->d->cleaner_op, LOG_INFO, "reclaimed %s of sandbox %s", t->kind, t->sandbox);
	return journal_sandbox_remove_if_empty(p->d->env->journal, t->sandbox, e);
}

/* Instances with nothing left are brought back; those with something are set aside. */
static void judge(struct pve_driver *d, const json_t *dirty)
{
	auto_unlock pthread_mutex_t *held = lock_take(&d->mu);

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

static void clean_some(struct pass *p, bool vms)
{
	struct err e;

	p->vms = vms;
	if (journal_each_thing(p->d->env->journal, NULL, clean_thing, p, &e) < 0 &&
		e.kind != ERR_CANCELLED)
		log_err(&p->d->cleaner_op, LOG_ERROR, &e, "cleaning");
}

/* How many things are left. */
static unsigned clean_once(struct pve_driver *d)
{
	auto_json json_t *dirty = json_object();
	struct pass p = {.d = d, .dirty = dirty};
	struct err e;

	/* Networks are made while VMs are, but have to go after them. */
	clean_some(&p, true);
	clean_some(&p, false);
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
	auto_unlock pthread_mutex_t *held = lock_take(&d->mu);
	int failed;

	if (d->cleaner_runs)
		return 0;
	failed = pthread_create(&d->cleaner, NULL, clean, d);
	if (failed)
		return err_sys(e, failed, "thread");
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
		return; /* it has been woken often enough */
}

void pve_cleaner_stop(struct pve_driver *d)
{
	bool runs;

	{
		auto_unlock pthread_mutex_t *held = lock_take(&d->mu);
		runs = d->cleaner_runs;
	}
	if (!runs)
		return;
	op_cancel(&d->cleaner_op);
	pthread_join(d->cleaner, NULL);
}

/* ---- what no journal knows ---- */

struct sweep {
	struct pve_driver *d;
	const struct op *op;
	bool (*known)(void *arg, const char *id);
	void (*said)(void *arg, const char *what);
	void *arg;
};

static bool is_lost(const struct sweep *s, const char *text, char ret_stamp[64])
{
	char id[32];

	if (!pve_stamp_find(s->d, text, id) || s->known(s->arg, id) || pve_box_lives(s->d, id))
		return false;
	snprintf(ret_stamp, 64, "moat-%s-%s", s->d->install, id);
	return true;
}

static int sweep_vms(const struct sweep *s, struct pve_site *site, struct err *e)
{
	auto_json json_t *vms = NULL;
	const json_t *vm;
	char stamp[64], text[128];
	size_t i;

	if (pve_do(pve_site_api(site), s->op, "GET", json_pack("{s:s}", "type", "vm"), 0, &vms, e,
		    "/cluster/resources") < 0)
		return -1;
	json_array_foreach(vms, i, vm)
	{
		struct pve_doomed doomed = {.node = json_string_value(json_object_get(vm, "node")),
			.vmid = (unsigned)json_integer_value(json_object_get(vm, "vmid")),
			.stamp = stamp};

		if (json_integer_value(json_object_get(vm, "template")) || !doomed.node ||
			!is_lost(s, json_string_value(json_object_get(vm, "tags")), stamp))
			continue;
		if (pve_vm_remove(site, s->op, &doomed, e) < 0)
			return -1;
		snprintf(text, sizeof(text), "VM %u (%s)", doomed.vmid, stamp);
		s->said(s->arg, text);
	}
	return 0;
}

static int sweep_zones(const struct sweep *s, struct pve_site *site, struct err *e)
{
	auto_json json_t *vnets = NULL;
	const json_t *v;
	char stamp[64], text[128];
	size_t i;

	if (pve_do(pve_site_api(site), s->op, "GET", NULL, 0, &vnets, e, "/cluster/sdn/vnets") < 0)
		return -1;
	json_array_foreach(vnets, i, v)
	{
		const char *zone = json_string_value(json_object_get(v, "zone"));

		if (!zone || !is_lost(s, json_string_value(json_object_get(v, "alias")), stamp))
			continue;
		if (pve_net_remove(site, s->op, zone, stamp, e) < 0)
			return -1;
		snprintf(text, sizeof(text), "zone %.16s (%s)", zone, stamp);
		s->said(s->arg, text);
	}
	return 0;
}

/* storage: NULL if the node has none for such content. */
static int sweep_content(const struct sweep *s, struct pve_inst *inst, const char *storage,
	const char *content, struct err *e)
{
	struct pve_api *api = pve_site_api(inst->site);
	auto_json json_t *volumes = NULL;
	const json_t *v;
	char stamp[64];
	size_t i;

	if (!storage)
		return 0;
	if (pve_do(api, s->op, "GET", json_pack("{s:s}", "content", content), 0, &volumes, e,
		    "/nodes/%s/storage/%s/content", inst->node, storage) < 0)
		return -1;
	json_array_foreach(volumes, i, v)
	{
		const char *volid = json_string_value(json_object_get(v, "volid"));

		if (!volid || !is_lost(s, volid, stamp))
			continue;
		if (pve_volume_delete(api, s->op, inst->node, volid, e) < 0)
			return -1;
		s->said(s->arg, volid);
	}
	return 0;
}

static int sweep_volumes(const struct sweep *s, struct pve_inst *inst, struct err *e)
{
	auto_pve_storages struct pve_storages st = {0};

	if (pve_storages_find(inst, s->op, &st, e) < 0 ||
		sweep_content(s, inst, st.iso, "iso", e) < 0)
		return -1;
	return sweep_content(s, inst, st.import, "import", e);
}

int pve_sweep(struct driver *base, const struct op *op, bool (*known)(void *arg, const char *id),
	void (*said)(void *arg, const char *what), void *arg, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	struct sweep s = {.d = d, .op = op, .known = known, .said = said, .arg = arg};
	auto_free struct pve_inst **insts = NULL;

	if (pve_access_read(d, NULL, &insts, e) < 0)
		return -1;
	for (size_t i = 0; insts[i]; i++) {
		bool again = false;

		for (size_t k = 0; k < i; k++)
			again |= insts[k]->site == insts[i]->site;
		if (!again && (sweep_vms(&s, insts[i]->site, e) < 0 ||
				      sweep_zones(&s, insts[i]->site, e) < 0))
			return err_wrap(e, "%s", insts[i]->site->key);
		if (sweep_volumes(&s, insts[i], e) < 0)
			return err_wrap(e, "%s", insts[i]->id);
	}
	return 0;
}
