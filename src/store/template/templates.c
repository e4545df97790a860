#include "store/template/templates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/template/dir.h"
#include "store/sparse.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/system/memory.h"
#include "util/str.h"
#include "util/thread/turn.h"

#define LOOK_AGAIN 0.05 /* seconds between looks at a lock of another process */

/* A template in memory. */
struct loaded {
	struct template t; /* first */
	int hold_fd;       /* keeps its directory */
	unsigned refs;
	uint64_t bytes;  /* how much memory it takes */
	int64_t idle_ns; /* since when no VM uses it */
	struct loaded *next;
};

enum { FAILURES_MAX = 32, FAILURE_TIMES = 100 };

struct failure {
	char key[SHA256_HEX + 1];
	int64_t until_ns;
	struct err why;
};

struct templates {
	struct template_root root;
	uint64_t memory_max;
	struct turn loading; /* one at a time: often two VMs of one kind start together */
	struct lock mu;
	struct loaded *list;
	struct failure failures[FAILURES_MAX]; /* the oldest is overwritten */
	unsigned n_failures;
};

int templates_open(const struct templates_config *cfg, struct templates **ret, struct err *e)
{
	auto_free struct templates *ts = calloc(1, sizeof(*ts));

	if (!ts)
		return err_oom(e);
	ts->root.disk_max = cfg->disk_max;
	ts->memory_max = cfg->memory_max;
	if (str_printf(&ts->root.dir, e, "%s/templates", cfg->data_dir) < 0)
		return -1;
	turn_init(&ts->loading);
	lock_init(&ts->mu, "templates.mu", LOCK_LEAF);
	*ret = take_ptr(&ts);
	return 0;
}

static void loaded_free(struct loaded *l)
{
	if (!l)
		return;
	if (l->t.ram_fd >= 0)
		close(l->t.ram_fd);
	if (l->hold_fd >= 0)
		close(l->hold_fd);
	free(l->t.dir);
	free(l->t.state);
	free(l->t.disk);
	free(l);
}
DEFINE_AUTO(auto_loadedp, struct loaded, loaded_free)

void templates_close(struct templates *ts)
{
	if (!ts)
		return;
	while (ts->list) {
		struct loaded *l = ts->list;

		ts->list = l->next;
		loaded_free(l);
	}
	turn_done(&ts->loading);
	lock_done(&ts->mu);
	free(ts->root.dir);
	free(ts);
}

static struct template *take_loaded(struct templates *ts, const char *key)
{
	auto_unlock struct lock *held = lock_take(&ts->mu);

	for (struct loaded *l = ts->list; l; l = l->next)
		if (strcmp(l->t.key, key) == 0) {
			l->refs++;
			return &l->t;
		}
	return NULL;
}

/* Takes the template that was idle longest off the list, if idle ones take more memory than max. */
static struct loaded *unlink_idle_locked(struct templates *ts, uint64_t max)
{
	struct loaded **oldest = NULL, *gone;
	uint64_t bytes = 0;

	for (struct loaded **at = &ts->list; *at; at = &(*at)->next) {
		if ((*at)->refs)
			continue;
		bytes += (*at)->bytes;
		if (!oldest || (*at)->idle_ns < (*oldest)->idle_ns)
			oldest = at;
	}
	if (!oldest || bytes <= max)
		return NULL;
	gone = *oldest;
	*oldest = gone->next;
	return gone;
}

static void drop_idle(struct templates *ts, uint64_t max)
{
	for (;;) {
		struct loaded *l;
		{
			auto_unlock struct lock *held = lock_take(&ts->mu);
			l = unlink_idle_locked(ts, max);
		}
		if (!l)
			return;
		loaded_free(l);
	}
}

struct template *templates_again(struct templates *ts, struct template *t)
{
	auto_unlock struct lock *held = lock_take(&ts->mu);

	((struct loaded *)t)->refs++;
	return t;
}

void templates_give(struct templates *ts, struct template *t)
{
	struct loaded *l = (struct loaded *)t;

	if (!t)
		return;
	{
		auto_unlock struct lock *held = lock_take(&ts->mu);
		if (--l->refs == 0)
			l->idle_ns = now_ns();
	}
	drop_idle(ts, ts->memory_max);
}

static int check_sum(const struct op *op, const char *path, const json_t *want, struct err *e)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t sum;

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	if (sparse_sum(op, fd, &sum, e) < 0)
		return -1;
	if (sum != template_sum_value(want))
		return err_set(e, ERR_BACKEND, "%s: wrong checksum", path);
	return 0;
}

/* Idle templates are dropped before one that is wanted cannot be loaded. */
static int make_room(struct templates *ts, uint64_t bytes, struct err *e)
{
	static const char what[] = "the template";

	if (memory_check(bytes, what, e) == 0)
		return 0;
	drop_idle(ts, 0);
	return memory_check(bytes, what, e);
}

static int load_ram(struct templates *ts, const struct op *op, struct loaded *l,
	const json_t *manifest, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int file = -1;
	struct stat st;
	uint64_t sum;

	if (str_printf(&path, e, "%s/ram", l->t.dir) < 0)
		return -1;
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) < 0)
		return err_sys(e, errno, "%s", path);
	l->t.ram_size = (uint64_t)json_integer_value(json_object_get(manifest, "ram_size"));
	if ((uint64_t)st.st_size != l->t.ram_size)
		return err_set(e, ERR_BACKEND, "%s: wrong size", path);
	if (make_room(ts, (uint64_t)st.st_blocks * 512, e) < 0 ||
		ram_new(l->t.ram_size, &l->t.ram_fd, e) < 0 ||
		sparse_copy(op, file, l->t.ram_fd, "loading the template", &sum, e) < 0)
		return -1;
	if (sum != template_sum_value(json_object_get(manifest, "ram_sum")))
		return err_set(e, ERR_BACKEND, "%s: wrong checksum", path);
	if (fstat(l->t.ram_fd, &st) == 0)
		l->bytes = (uint64_t)st.st_blocks * 512;
	return ram_seal(l->t.ram_fd, e);
}

static int load(struct templates *ts, const struct op *op, struct loaded *l, struct err *e)
{
	auto_json json_t *manifest = NULL;

	if (template_manifest_read(l->t.dir, &manifest, e) < 0 ||
		str_printf(&l->t.state, e, "%s/state", l->t.dir) < 0)
		return -1;
	if (check_sum(op, l->t.state, json_object_get(manifest, "state_sum"), e) < 0)
		return -1;
	if (json_object_get(manifest, "disk_sum")) {
		if (str_printf(&l->t.disk, e, "%s/disk.qcow2", l->t.dir) < 0 ||
			check_sum(op, l->t.disk, json_object_get(manifest, "disk_sum"), e) < 0)
			return -1;
	}
	return load_ram(ts, op, l, manifest, e);
}

/* Puts a template into the list with one reference. */
static void enlist(struct templates *ts, struct loaded *l)
{
	auto_unlock struct lock *held = lock_take(&ts->mu);

	l->refs = 1;
	l->next = ts->list;
	ts->list = l;
}

static bool is_damage(const struct err *e)
{
	return e->kind != ERR_CANCELLED && e->kind != ERR_TIMEOUT && !err_is_shortage(e);
}

/* 1, 0 or -1 as templates_take. */
static int take_from_disk(struct templates *ts, const struct op *op, const char *key,
	struct template **ret, struct err *e)
{
	__attribute__((cleanup(auto_loadedp))) struct loaded *l = calloc(1, sizeof(*l));
	struct err ignored;
	int held;

	if (!l)
		return err_oom(e);
	l->t.ram_fd = l->hold_fd = -1;
	memcpy(l->t.key, key, strlen(key) + 1);
	held = template_dir_hold(&ts->root, key, &l->t.dir, &l->hold_fd, e);
	if (held <= 0)
		return held;
	if (load(ts, op, l, e) < 0) {
		if (!is_damage(e))
			return -1;
		log_err(op, LOG_WARN, e, "a template is damaged and will be made anew");
		close(take_fd(&l->hold_fd));
		/* VMs may use it, from before the damage: then it stays for now. */
		if (template_dir_remove(&ts->root, key, NULL, &ignored) < 0)
			return -1;
		return 0;
	}
	template_dir_touch(l->t.dir);
	enlist(ts, l);
	*ret = &take_ptr(&l)->t;
	return 1;
}

int templates_take(struct templates *ts, const struct op *op, const char *key,
	struct template **ret, struct err *e)
{
	auto_turn struct turn *held = NULL;

	*ret = take_loaded(ts, key);
	if (*ret) {
		template_dir_touch((*ret)->dir);
		return 1;
	}
	if (turn_take(&ts->loading, op, e) < 0)
		return -1;
	held = &ts->loading;
	*ret = take_loaded(ts, key); /* another thread may have loaded it while we waited */
	return *ret ? 1 : take_from_disk(ts, op, key, ret, e);
}

int templates_claim(
	struct templates *ts, const struct op *op, const char *key, int *ret_fd, struct err *e)
{
	bool said = false;
	int got;

	while ((got = template_dir_claim(&ts->root, key, ret_fd, e)) == 0) {
		if (!said)
			op_progress(op, 0, 0, "waiting for the template, which another VM makes");
		said = true;
		if (op_pause(op, LOOK_AGAIN, e) < 0)
			return -1;
	}
	return got < 0 ? -1 : 0;
}

int templates_draft(
	struct templates *ts, uint64_t ram_size, struct template_draft *ret, struct err *e)
{
	struct template_draft d = {.lock_fd = -1, .ram_fd = -1, .ram_size = ram_size};

	if (template_dir_draft(&ts->root, &d.dir, &d.lock_fd, e) < 0)
		return -1;
	if (ram_new(ram_size, &d.ram_fd, e) < 0) {
		templates_discard(&d);
		return -1;
	}
	*ret = d;
	return 0;
}

void templates_discard(struct template_draft *d)
{
	struct err e;

	if (d->dir && dir_remove(d->dir, &e) < 0)
		log_err(NULL, LOG_WARN, &e, "%s stays until the next gc", d->dir);
	if (d->dir && d->lock_fd >= 0)
		close(d->lock_fd);
	if (d->dir && d->ram_fd >= 0)
		close(d->ram_fd);
	free(d->dir);
	*d = (struct template_draft){.lock_fd = -1, .ram_fd = -1};
}

static int save_ram(
	const struct op *op, const struct template_draft *d, uint64_t *ret_sum, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;

	if (str_printf(&path, e, "%s/ram", d->dir) < 0)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	if (sparse_copy(op, d->ram_fd, fd, "saving the template", ret_sum, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

static int sum_part(const struct op *op, const char *dir, const char *name, json_t *manifest,
	const char *member, struct err *e)
{
	auto_free char *path = NULL;
	auto_fd int fd = -1;
	uint64_t sum;

	if (str_printf(&path, e, "%s/%s", dir, name) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && strcmp(name, "state") != 0)
		return 0;
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	if (sparse_sum(op, fd, &sum, e) < 0)
		return -1;
	json_object_set_new(manifest, member, template_sum_json(sum));
	return 0;
}

int templates_publish(struct templates *ts, const struct op *op, struct template_draft *d,
	const char *key, json_t *about, struct err *e)
{
	auto_json json_t *manifest = json_pack("{s:i, s:O, s:I}", "version", TEMPLATE_FORMAT,
		"about", about, "ram_size", (json_int_t)d->ram_size);
	uint64_t sum;

	if (!manifest)
		return err_oom(e);
	if (ram_seal(d->ram_fd, e) < 0 || save_ram(op, d, &sum, e) < 0)
		return -1;
	json_object_set_new(manifest, "ram_sum", template_sum_json(sum));
	if (sum_part(op, d->dir, "state", manifest, "state_sum", e) < 0 ||
		sum_part(op, d->dir, "disk.qcow2", manifest, "disk_sum", e) < 0)
		return -1;
	return template_dir_publish(&ts->root, d->dir, key, manifest, e);
}

void templates_note_failure(
	struct templates *ts, const char *key, int64_t took_ns, const struct err *why)
{
	auto_unlock struct lock *held = lock_take(&ts->mu);
	struct failure *f = &ts->failures[ts->n_failures++ % FAILURES_MAX];

	snprintf(f->key, sizeof(f->key), "%s", key);
	f->until_ns = now_ns() + took_ns * FAILURE_TIMES;
	f->why = *why;
}

bool templates_failed(struct templates *ts, const char *key, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&ts->mu);

	for (unsigned i = 0; i < FAILURES_MAX; i++)
		if (strcmp(ts->failures[i].key, key) == 0 && now_ns() < ts->failures[i].until_ns) {
			*e = ts->failures[i].why;
			return true;
		}
	return false;
}

static void mark_loaded(struct templates *ts, json_t *list)
{
	auto_unlock struct lock *held = lock_take(&ts->mu);
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		const char *key = json_string_value(json_object_get(one, "key"));
		bool in_memory = false;

		for (struct loaded *l = ts->list; l; l = l->next)
			in_memory |= key && strcmp(l->t.key, key) == 0;
		json_object_set_new(one, "in_memory", json_boolean(in_memory));
	}
}

int templates_list(struct templates *ts, json_t **ret, struct err *e)
{
	if (template_dir_list(&ts->root, ret, e) < 0)
		return -1;
	mark_loaded(ts, *ret);
	return 0;
}

/* Drops an idle template from memory, so that its directory can be removed. */
static void forget_idle(struct templates *ts, const char *key)
{
	struct loaded *gone = NULL;

	{
		auto_unlock struct lock *held = lock_take(&ts->mu);
		for (struct loaded **at = &ts->list; *at; at = &(*at)->next)
			if (strcmp((*at)->t.key, key) == 0 && (*at)->refs == 0) {
				gone = *at;
				*at = gone->next;
				break;
			}
	}
	loaded_free(gone);
}

int templates_remove(struct templates *ts, const char *prefix, uint64_t *ret_freed, struct err *e)
{
	char key[SHA256_HEX + 1];

	if (template_dir_resolve(&ts->root, prefix, key, e) < 0)
		return -1;
	forget_idle(ts, key);
	return template_dir_remove(&ts->root, key, ret_freed, e);
}

int templates_sweep(struct templates *ts, bool (*stale)(void *arg, const json_t *about), void *arg,
	void (*said)(void *arg, const char *text), void *said_arg, struct err *e)
{
	auto_json json_t *list = NULL;
	json_t *one;
	size_t i;

	if (template_dir_sweep(&ts->root, e) < 0 || template_dir_list(&ts->root, &list, e) < 0)
		return -1;
	json_array_foreach(list, i, one) {
		const char *key = json_string_value(json_object_get(one, "key"));
		auto_free char *text = NULL;
		struct err ignored;

		if (template_dir_has_format(&ts->root, key, TEMPLATE_FORMAT) && !stale(arg, one))
			continue;
		forget_idle(ts, key);
		if (template_dir_remove(&ts->root, key, NULL, &ignored) < 0)
			continue; /* in use */
		if (said && str_printf(&text, e, "template %.12s", key) == 0)
			said(said_arg, text);
	}
	return 0;
}
