#include "driver/vagrant/destroy.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/vagrant/env.h"
#include "driver/vagrant/libvirt/domains.h"
#include "driver/vagrant/run.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"

enum {
	DESTROY_TRIES = 3,
	INDEX_MAX = 16 * 1024 * 1024,
};
#define AGAIN 1.0 /* seconds between tries */

/* ---- Vagrant's index of all machines of a user ---- */

static int read_index(const struct vagrant_dir *d, json_t **ret, struct err *e)
{
	const char *home = env_find(&d->env, "VAGRANT_HOME"), *user = env_find(&d->env, "HOME");
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	if (home ? str_printf(&path, e, "%s/data/machine-index/index", home) < 0
		 : str_printf(&path, e, "%s/.vagrant.d/data/machine-index/index",
			   user ? user : "") < 0)
		return -1;
	if (file_read(path, INDEX_MAX, &text, &len, e) < 0)
		return -1;
	*ret = json_loadb(text, len, 0, NULL);
	return *ret ? 0 : err_set(e, ERR_BACKEND, "%s is no JSON", path);
}

/* How many machines of this directory it names; names: "web (virtualbox), db (libvirt)". */
static unsigned index_count(
	const struct vagrant_dir *d, bool with_libvirt, char *names, size_t size)
{
	auto_json json_t *index = NULL;
	struct err none; /* no index, no machine in it */
	const char *key;
	json_t *one;
	unsigned n = 0;

	names[0] = 0;
	if (read_index(d, &index, &none) < 0)
		return 0;
	json_object_foreach(json_object_get(index, "machines"), key, one) {
		const char *root = json_string_value(json_object_get(one, "vagrantfile_path"));
		const char *name = json_string_value(json_object_get(one, "name"));
		const char *provider = json_string_value(json_object_get(one, "provider"));
		size_t len = strlen(names);

		if (!root || strcmp(root, d->root) != 0 ||
			(!with_libvirt && provider && strcmp(provider, "libvirt") == 0))
			continue;
		snprintf(names + len, size - len, "%s%.60s (%.30s)", n ? ", " : "",
			name ? name : "?", provider ? provider : "?");
		n++;
	}
	return n;
}

static void prune(struct vagrant_dir *d, const struct op *op, struct vagrant_report *report)
{
	static const char *const argv[] = {"global-status", "--prune", NULL};
	struct vagrant_run run = {.argv = argv, .what = "vagrant global-status --prune"};
	struct err ignored;

	vagrant_run(d, op, &run, report, &ignored);
}

/* ---- by Vagrant ---- */

/* name: NULL for all machines. */
static int destroy_once(struct vagrant_dir *d, const struct op *op, const char *name,
	struct vagrant_report *report, struct err *e)
{
	const char *const argv[] = {"destroy", "-f", name, NULL};
	struct vagrant_run run = {.argv = argv, .what = "vagrant destroy"};

	return vagrant_run(d, op, &run, report, e);
}

/* Where Vagrant refuses one machine, it does not come to the others: each gets a run of its own. */
static int destroy_each(struct vagrant_dir *d, const struct op *op, struct err *e)
{
	auto_free struct vagrant_report *report = calloc(1, sizeof(*report));
	struct vagrant_left left[VAGRANT_MACHINES_MAX];
	unsigned n = vagrant_dir_left(d, left);
	int rc = -1;

	if (!report)
		return err_oom(e);
	for (unsigned i = 0; n > 1 && i < n && op_check(op, e) == 0; i++) {
		struct err why;

		if (destroy_once(d, op, left[i].name, report, &why) < 0)
			*e = why;
	}
	if (!vagrant_dir_has_machines(d))
		rc = 0;
	return rc;
}

static int destroy_by_vagrant(
	struct vagrant_dir *d, const struct op *op, struct vagrant_report *report, struct err *e)
{
	if (destroy_once(d, op, NULL, report, e) < 0)
		return vagrant_report_locked(report) ? -1 : destroy_each(d, op, e);
	/* Exit code 0 is no proof that the machines are gone: Vagrant had no complaint, no more. */
	if (vagrant_dir_has_machines(d))
		return err_set(e, ERR_BACKEND,
			"vagrant destroy: it said that all went well, but %s still has machines",
			d->root);
	return 0;
}

/* ---- without Vagrant ---- */

/* libvirt as Vagrant sees it: not as virsh does, for which an ordinary user's is another one. */
static struct libvirt libvirt_of(const struct vagrant_dir *d, const struct op *op, const char *uri)
{
	if (str_empty(uri))
		uri = env_find(&d->env, "LIBVIRT_DEFAULT_URI");
	return (struct libvirt){
		.op = op, .env = &d->env, .uri = str_empty(uri) ? "qemu:///system" : uri};
}

/* 1: destroyed; 0: it is not there. */
static int destroy_domain(const struct vagrant_dir *d, const struct op *op,
	const struct vagrant_left *m, struct err *e)
{
	struct libvirt l = libvirt_of(d, op, m->uri);
	int done = *m->id ? libvirt_destroy(&l, m->id, m->domain, e) : 0;

	if (done)
		return done;
	/* The id may be that of no domain, where a guest has written it. */
	if (!*m->domain)
		return err_set(e, ERR_BACKEND, "moat has no note of its name");
	return libvirt_destroy_named(&l, m->domain, d->root, vagrant_dir_id(d->root), e);
}

/* e: why Vagrant did not do it, to which is added what is left. */
static int destroy_by_provider(struct vagrant_dir *d, const struct op *op, struct err *e)
{
	struct vagrant_left left[VAGRANT_MACHINES_MAX];
	unsigned n = vagrant_dir_left(d, left);
	char names[900] = "";

	for (unsigned i = 0; i < n; i++) {
		struct vagrant_left *m = &left[i];
		size_t len = strlen(names);
		struct err why = {.msg = "moat has no other way to destroy it"};
		const char *known_as = *m->id ? m->id : m->domain;
		char id[80];
		int done =
			strcmp(m->provider, "libvirt") == 0 ? destroy_domain(d, op, m, &why) : -1;

		/* A domain that is not there may be elsewhere, unless we know where it was. */
		if ((done > 0 || (done == 0 && m->uri[0])) && vagrant_dir_forget(d, m, &why) == 0)
			continue;
		str_escape(known_as, strlen(known_as), id, sizeof(id));
		snprintf(names + len, sizeof(names) - len, "%s%.60s (%.20s, %s: %.200s)",
			*names ? ", " : "", m->name, m->provider, id,
			done == 0 ? "libvirt does not have it" : why.msg);
	}
	if (n && !*names)
		return 0;
	return err_wrap(e, "still there: %s", names);
}

/* Somebody has deleted what Vagrant knew of its machines here. */
static int destroy_forgotten(struct vagrant_dir *d, const struct op *op, struct err *e)
{
	/* The notes of libvirt's machines tell more than the index, while they are there. */
	bool all = !path_exists(d->root);
	struct libvirt l = libvirt_of(d, op, NULL);
	unsigned found, listed;
	char names[300];
	struct err why;

	if (libvirt_destroy_of(&l, d->root, vagrant_dir_id(d->root), &found, &why) < 0 &&
		why.kind != ERR_NOT_FOUND) {
		*e = why;
		return err_wrap(e, "looking for machines of %s in libvirt", d->root);
	}
	listed = index_count(d, all, names, sizeof(names));
	if (listed > found)
		return err_set(e, ERR_BACKEND,
			"somebody has deleted %s, and Vagrant had machines there: %s. Remove what "
			"is left of them with the tools of their provider, then run `vagrant "
			"global-status --prune`",
			d->root, names);
	return 0;
}

int vagrant_destroy_all(struct vagrant_dir *d, const struct op *op, struct err *e)
{
	auto_free struct vagrant_report *report = calloc(1, sizeof(*report));
	bool known = path_exists(d->root) && vagrant_dir_has_machines(d);
	unsigned failures = 0;
	char names[300];
	struct err paused;

	if (!report)
		return err_oom(e);
	if (!known && (!path_exists(d->root) || index_count(d, false, names, sizeof(names))))
		return destroy_forgotten(d, op, e);
	while (vagrant_dir_has_machines(d)) {
		if (destroy_by_vagrant(d, op, report, e) == 0)
			break;
		/* A process that we have just killed may hold its lock for a moment more. */
		if (!vagrant_report_locked(report) && ++failures == DESTROY_TRIES) {
			if (destroy_by_provider(d, op, e) == 0)
				break;
			prune(d, op, report);
			return -1;
		}
		if (e->kind == ERR_TIMEOUT || op_pause(op, AGAIN, &paused) < 0)
			return -1;
	}
	if (index_count(d, true, names, sizeof(names)))
		prune(d, op, report);
	return 0;
}
