/*
 * Instances come from clients, with their logins. A login lives in memory. It is also written to
 * one file, which only this user can read, for as long as the journal has an entry on that site:
 * the daemon that follows a killed one must be able to remove what is there.
 */
#include "driver/proxmox/site/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/proxmox/site/sandbox.h"
#include "driver/proxmox/spec/args.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"
#include "util/strv.h"

enum { INSTANCES_MAX = 256, FILE_MAX = 4 * 1024 * 1024, DEFAULT_PORT = 8006, TAGS_MAX = 512 };
#define SAVE_SECONDS 60.0

struct given_inst { /* an instance as a client writes it */
	const char *id, *pool, *host, *user, *realm, *password, *token, *node, *fingerprint;
	const char *image_storage, *iso_storage, *import_storage;
	char tags[TAGS_MAX];
	int port, verify, max;
	json_t *headers;
};

/* tags: a list of them; without one, what the older plugin's VMs have, too. */
static int read_tags(const json_t *tags, const char *what, char ret[TAGS_MAX], struct err *e)
{
	const json_t *one;
	size_t i;

	snprintf(ret, TAGS_MAX, "%s", tags ? "" : "inspect");
	if (tags && !json_is_array(tags))
		return err_set(e, ERR_INVALID, "%s: tags is not a list", what);
	json_array_foreach(tags, i, one) {
		const char *text = json_string_value(one);
		char tag[128];
		size_t len = strlen(ret);

		if (text)
			pve_tag_text(text, tag);
		if (!text || !*text || strcmp(text, tag) != 0)
			return err_set(e, ERR_INVALID,
				"%s: tags[%zu] is no tag of lower-case letters, digits, _ and -",
				what, i);
		if (len + 1 + strlen(tag) >= TAGS_MAX)
			return err_set(e, ERR_INVALID, "%s: tags are too long", what);
		snprintf(ret + len, TAGS_MAX - len, "%s%s", len ? ";" : "", tag);
	}
	return 0;
}

static int read_inst(json_t *j, size_t i, struct given_inst *given, struct err *e)
{
	const json_t *tags = NULL;
	char what[64];

	*given = (struct given_inst){.id = "default",
		.pool = "default",
		.user = "root",
		.realm = "pam",
		.node = "proxmox",
		.image_storage = "local-lvm",
		.port = DEFAULT_PORT,
		.verify = 1};
	snprintf(what, sizeof(what), "access.instances[%zu]", i);
	if (json_get(j, what, e,
		    "{s?s, s?s, s:s, s?i, s?s, s?s, s?s, s?s, s?s, s?b, s?s, s?s, s?s, s?s, s?i, "
		    "s?o, s?o *}",
		    "instance_id", &given->id, "pool_id", &given->pool, "host", &given->host,
		    "port", &given->port, "user", &given->user, "user_realm", &given->realm,
		    "password", &given->password, "token", &given->token, "node", &given->node,
		    "verify_tls", &given->verify, "fingerprint", &given->fingerprint,
		    "image_storage", &given->image_storage, "iso_storage", &given->iso_storage,
		    "import_storage", &given->import_storage, "max_sandboxes", &given->max,
		    "extra_headers", &given->headers, "tags", &tags) < 0 ||
		read_tags(tags, what, given->tags, e) < 0)
		return -1;
	if (given->port < 1 || given->port > 65535 || given->max < 0)
		return err_set(e, ERR_INVALID, "%s: port or max_sandboxes out of range", what);
	return 0;
}

/* extra_headers: a list of {"name", "value"}. */
static int read_headers(const json_t *headers, struct strv *ret, struct err *e)
{
	json_t *one;
	size_t i;

	json_array_foreach(headers, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));
		const char *value = json_string_value(json_object_get(one, "value"));

		if (!name || !value)
			return err_set(
				e, ERR_INVALID, "extra_headers[%zu]: has no name or no value", i);
		strv_addf(ret, "%s: %s", name, value);
	}
	return 0;
}

static int make_key(const struct given_inst *given, char **ret, struct err *e)
{
	/* The id of a token is no secret; what follows "=" is. */
	size_t n = given->token ? strcspn(given->token, "=") : 0;
	bool whole = given->token && memchr(given->token, '!', n);

	if (whole)
		return str_printf(
			ret, e, "%.*s@%s:%d", (int)n, given->token, given->host, given->port);
	return str_printf(ret, e, "%s@%s%s%.*s@%s:%d", given->user, given->realm, n ? "!" : "",
		(int)n, given->token ? given->token : "", given->host, given->port);
}

static int new_api(const struct pve_driver *d, const struct given_inst *given, struct pve_api **ret,
	struct err *e)
{
	auto_strv struct strv headers = {0};
	struct pve_access a = {.host = given->host,
		.port = (unsigned)given->port,
		.user = given->user,
		.realm = given->realm,
		.password = given->password,
		.token = given->token,
		.verify_tls = given->verify,
		.fingerprint = given->fingerprint,
		.outage_s = d->env->outage_timeout};

	if (read_headers(given->headers, &headers, e) < 0)
		return -1;
	if (headers.n) {
		if (strv_check(&headers, e) < 0)
			return -1;
		a.headers = (const char *const *)headers.v;
	}
	return pve_api_new(&a, ret, e);
}

static struct pve_site *find_site_locked(struct pve_driver *d, const char *key)
{
	for (struct pve_site *s = d->sites; s; s = s->next)
		if (strcmp(s->key, key) == 0)
			return s;
	return NULL;
}

/* Enters a site, or the new login of a known one: sandboxes that exist go on with the login that
 * they began with. */
static int enter_site_locked(struct pve_driver *d, json_t *j, const struct given_inst *given,
	struct pve_site **ret, struct err *e)
{
	auto_free char *key = NULL;
	struct pve_site *s;
	struct pve_api *api;

	if (make_key(given, &key, e) < 0)
		return -1;
	s = find_site_locked(d, key);
	if (s && json_equal(s->access, j)) {
		*ret = s;
		return 0;
	}
	if (new_api(d, given, &api, e) < 0)
		return -1;
	if (s && s->n_old == ARRAY_LEN(s->old_apis)) {
		pve_api_free(api);
		return err_set(
			e, ERR_BUSY, "%s: the login changed too often; restart the daemon", key);
	}
	if (!s) {
		if (pve_site_new(key, given->host, given->port, &s, e) < 0) {
			pve_api_free(api);
			return -1;
		}
		s->next = d->sites;
		d->sites = s;
	}
	{
		auto_unlock struct lock *held = lock_take(&s->mu);

		if (s->api)
			s->old_apis[s->n_old++] = s->api;
		s->api = api;
	}
	json_decref(s->access);
	s->access = json_deep_copy(j);
	*ret = s;
	return 0;
}

/* A copy without the members that are null: null means the same as a member that is missing. */
static json_t *without_nulls(const json_t *j)
{
	json_t *copy = json_deep_copy(j), *value;
	const char *key;
	void *next;

	json_object_foreach_safe(copy, next, key, value)
	{
		if (json_is_null(value))
			json_object_del(copy, key);
	}
	return copy;
}

/* A copy without what belongs to the instance: two instances may share one site. */
static json_t *site_part(const json_t *j)
{
	static const char *const own[] = {"instance_id", "pool_id", "node", "image_storage",
		"iso_storage", "import_storage", "max_sandboxes", "tags"};
	json_t *copy = json_deep_copy(j);

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		json_object_del(copy, own[i]);
	return copy;
}

static bool same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static int copy_str(const char *from, char **to, struct err *e)
{
	return str_empty(from) ? 0 : str_dup(from, to, e);
}

/* The strings of an instance never change, so reading them needs no lock. */
static int inst_new(
	const struct given_inst *given, struct pve_site *site, struct pve_inst **ret, struct err *e)
{
	struct pve_inst *inst = calloc(1, sizeof(*inst));

	if (!inst)
		return err_oom(e);
	inst->site = site;
	if (str_dup(given->tags, &inst->tags, e) < 0 || str_dup(given->id, &inst->id, e) < 0 ||
		str_dup(given->node, &inst->node, e) < 0 ||
		str_dup(given->pool, &inst->pool, e) < 0 ||
		str_dup(given->image_storage, &inst->image_storage, e) < 0 ||
		copy_str(given->iso_storage, &inst->iso_storage, e) < 0 ||
		copy_str(given->import_storage, &inst->import_storage, e) < 0) {
		pve_inst_free(inst);
		return -1;
	}
	*ret = inst;
	return 0;
}

static int enter_inst_locked(
	struct pve_driver *d, const json_t *access, size_t at, struct pve_inst **ret, struct err *e)
{
	auto_json json_t *j = without_nulls(access), *part = site_part(j);
	struct pve_inst *inst;
	struct pve_site *site;
	struct given_inst w;

	if (read_inst(j, at, &w, e) < 0)
		return -1;
	if (!*w.node || !*w.pool || !*w.image_storage)
		return err_set(e, ERR_INVALID,
			"instance %s: node, pool_id and image_storage must not be empty", w.id);
	if (enter_site_locked(d, part, &w, &site, e) < 0)
		return err_wrap(e, "instance %s", w.id);
	for (inst = d->insts; inst; inst = inst->next)
		if (inst->site == site && same(inst->node, w.node) && same(inst->pool, w.pool) &&
			same(inst->id, w.id) && same(inst->image_storage, w.image_storage) &&
			same(inst->iso_storage, w.iso_storage) &&
			same(inst->import_storage, w.import_storage) && same(inst->tags, w.tags))
			break;
	if (!inst) {
		if (inst_new(&w, site, &inst, e) < 0)
			return -1;
		inst->next = d->insts;
		d->insts = inst;
	}
	inst->max_sandboxes = (unsigned)w.max;
	*ret = inst;
	return 0;
}

int pve_access_read(
	struct pve_driver *d, const json_t *access, struct pve_inst ***ret, struct err *e)
{
	json_t *list = json_object_get(access, "instances"), *one;
	auto_free struct pve_inst **all = NULL;
	size_t n = 0, i;
	auto_unlock struct lock *held = lock_take(&d->mu);

	if (access && (!json_is_array(list) || json_array_size(list) > INSTANCES_MAX))
		return err_set(e, ERR_INVALID, "access.instances: not a list of servers");
	if (access) {
		n = json_array_size(list);
	} else {
		for (struct pve_inst *inst = d->insts; inst; inst = inst->next)
			n++;
	}
	all = calloc(n + 1, sizeof(struct pve_inst *));
	if (!all)
		return err_oom(e);
	if (access) {
		json_array_foreach(list, i, one) {
			if (enter_inst_locked(d, one, i, &all[i], e) < 0)
				return -1;
		}
	} else {
		i = 0;
		for (struct pve_inst *inst = d->insts; inst; inst = inst->next)
			all[i++] = inst;
	}
	*ret = take_ptr(&all);
	return 0;
}

/* ---- the file ---- */

static int read_file(struct pve_driver *d, json_t **ret, struct err *e)
{
	auto_free char *text = NULL;
	size_t len = 0;
	int rc;

	if (!path_exists(d->access_path))
		return json_make(ret, e, "{s:{}}", "sites");
	if (file_read(d->access_path, FILE_MAX, &text, &len, e) < 0)
		return -1;
	rc = json_parse_object((struct bytes){(uint8_t *)text, len}, ret, e);
	explicit_bzero(text, len);
	return rc < 0 ? err_wrap(e, "%s", d->access_path) : 0;
}

int pve_access_site(struct pve_driver *d, const char *key, struct pve_site **ret, struct err *e)
{
	auto_json json_t *file = NULL;
	struct given_inst w;
	json_t *j;

	{
		auto_unlock struct lock *held = lock_take(&d->mu);
		*ret = find_site_locked(d, key);
		if (*ret)
			return 0;
	}
	if (read_file(d, &file, e) < 0)
		return -1;
	j = json_object_get(json_object_get(file, "sites"), key);
	if (!j)
		return err_set(e, ERR_UNAVAILABLE,
			"no login for %s is known: set PROXMOX_HOST and its companions, or "
			"PROXMOX_CONFIG_FILE, and run `moat gc`",
			key);
	if (read_inst(j, 0, &w, e) < 0)
		return -1;
	auto_unlock struct lock *held = lock_take(&d->mu);
	return enter_site_locked(d, j, &w, ret, e);
}

struct in_use {
	json_t *keys; /* object: the sites on which the journal has entries */
};

static int note_site(void *arg, const struct journal_entry *t, struct err *e)
{
	struct in_use *u = arg;
	auto_json json_t *ref = NULL;
	const char *at;

	(void)e;
	if (strcmp(t->driver, PVE_NAME) != 0)
		return 0;
	ref = json_loads(t->ref, 0, NULL);
	at = json_string_value(json_object_get(ref, "at"));
	if (at)
		json_object_set_new(u->keys, at, json_true());
	return 0;
}

static int write_file(struct pve_driver *d, const json_t *file, const json_t *old, struct err *e)
{
	auto_free char *text = NULL;
	int rc;

	if (json_equal((json_t *)file, (json_t *)old))
		return 0;
	if (json_object_size(json_object_get(file, "sites")) == 0) {
		unlink(d->access_path);
		return 0;
	}
	if (json_to_str(file, &text, e) < 0)
		return -1;
	rc = file_write_atomic(d->access_path, text, strlen(text), 0600, e);
	explicit_bzero(text, strlen(text));
	return rc;
}

int pve_access_save(struct pve_driver *d, struct err *e)
{
	struct op patience = op_for_cleanup(SAVE_SECONDS);
	auto_turn struct turn *saving = NULL;
	auto_json json_t *keys = json_object(), *old = NULL, *file = NULL;
	struct in_use u = {.keys = keys};
	json_t *sites = json_object(), *from_file, *value;
	const char *key;
	int rc;

	if (turn_take(&d->saving, &patience, e) == 0)
		saving = &d->saving;
	if (!saving || journal_each_entry(d->env->journal, NULL, note_site, &u, e) < 0 ||
		read_file(d, &old, e) < 0) {
		json_decref(sites);
		return -1;
	}
	{
		/* Sandboxes that have a site are about to journal something there. */
		auto_unlock struct lock *held = lock_take(&d->mu);
		for (struct pve_sandbox *b = d->sandboxes; b; b = b->next)
			if (b->site)
				json_object_set_new(keys, b->site->key, json_true());
	}
	from_file = json_object_get(old, "sites");
	json_object_foreach(keys, key, value) {
		auto_unlock struct lock *held = lock_take(&d->mu);
		struct pve_site *s = find_site_locked(d, key);
		json_t *access = s ? s->access : json_object_get(from_file, key);

		if (access)
			json_object_set(sites, key, access);
	}
	if (json_make(&file, e, "{s:o}", "sites", sites) < 0)
		return -1;
	rc = write_file(d, file, old, e);
	if (rc == 0) {
		auto_unlock struct lock *held = lock_take(&d->mu);
		json_decref(d->saved);
		d->saved = json_incref(sites);
	}
	return rc;
}

int pve_access_keep(struct pve_driver *d, const struct pve_site *s, struct err *e)
{
	struct op patience = op_for_cleanup(SAVE_SECONDS);
	bool saved;

	/* A thread that saves may have looked before our sandbox came to the site. */
	if (turn_take(&d->saving, &patience, e) < 0)
		return -1;
	{
		auto_unlock struct lock *held = lock_take(&d->mu);
		json_t *there = json_object_get(d->saved, s->key);

		saved = there && json_equal(there, s->access);
	}
	turn_give(&d->saving);
	return saved ? 0 : pve_access_save(d, e);
}

int pve_access_drop(struct pve_driver *d, const struct pve_site *s, struct err *e)
{
	{
		auto_unlock struct lock *held = lock_take(&d->mu);

		for (struct pve_sandbox *b = d->sandboxes; b; b = b->next)
			if (b->site == s)
				return 0;
	}
	return pve_access_save(d, e);
}
