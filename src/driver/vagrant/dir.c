#include "driver/vagrant/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/vagrant/env.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/system/proc.h"
#include "util/str.h"

enum {
	VAGRANTFILE_MAX = 4 * 1024 * 1024,
	ENV_MAX = 4 * 1024 * 1024,
	COPY_AT_ONCE = 256,
	COPY_OUTPUT_MAX = 256 * 1024,
	NOTE_MAX = 4096,
};

#define NAME_START "moat-"
#define NOTE_START "machine-"

int vagrant_dir_name(const char *id, char **ret, struct err *e)
{
	return str_printf(ret, e, NAME_START "%s", id);
}

const char *vagrant_dir_id(const char *root)
{
	const char *slash = strrchr(root, '/'), *name = slash ? slash + 1 : root;

	return str_starts(name, NAME_START) ? name + strlen(NAME_START) : name;
}

/* ---- content ---- */

/*
 * What Vagrant keeps about machines must never be copied: with a copy of it, destroying this
 * sandbox would destroy a user's own machines.
 */
static bool stays_behind(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".vagrant") == 0;
}

static int copy_some(const struct op *op, struct strv *names, const char *to, struct err *e)
{
	auto_strv struct strv argv = {0};
	struct proc_req req = {.out_max = COPY_OUTPUT_MAX};

	if (!names->n)
		return 0;
	strv_add_all(&argv, "cp", "-a", "--reflink=auto", "-t", to, "--", NULL);
	for (size_t i = 0; i < names->n; i++)
		strv_add(&argv, names->v[i]);
	strv_free(names);
	if (strv_check(&argv, e) < 0)
		return -1;
	req.argv = (const char *const *)argv.v;
	return proc_run_ok(op, &req, e);
}

static int copy_tree(const struct op *op, const char *from, const char *to, struct err *e)
{
	auto_strv struct strv names = {0};
	auto_dir DIR *dir = opendir(from);
	struct dirent *ent;

	if (!dir)
		return err_sys(e, errno, "%s", from);
	op_progress(op, 0, 0, "copying %s", from);
	while ((ent = readdir(dir))) {
		if (stays_behind(ent->d_name))
			continue;
		strv_addf(&names, "%s/%s", from, ent->d_name);
		if (names.n == COPY_AT_ONCE && copy_some(op, &names, to, e) < 0)
			return -1;
	}
	return copy_some(op, &names, to, e);
}

static int copy_vagrantfile(const char *from, const char *dir, struct err *e)
{
	auto_free char *to = NULL, *text = NULL;
	size_t len = 0;

	return str_printf(&to, e, "%s/Vagrantfile", dir) < 0 ||
			       file_read(from, VAGRANTFILE_MAX, &text, &len, e) < 0 ||
			       file_write_atomic(to, text, len, 0600, e) < 0
		       ? -1
		       : 0;
}

static int write_helper(const char *dir, struct err *e)
{
	auto_free char *to = NULL;

	if (str_printf(&to, e, "%s/" VAGRANT_HELPER, dir) < 0)
		return -1;
	return file_write_atomic(to, vagrant_helper, strlen(vagrant_helper), 0600, e);
}

/* ---- environment ---- */

/* Sets what every run needs, whatever the client's environment and the spec say. */
static int fix_env(struct strv *env, const char *root, struct err *e)
{
	auto_free char *dotfile = NULL;

	if (str_printf(&dotfile, e, "%s/.vagrant", root) < 0)
		return -1;
	env_set(env, "VAGRANT_CWD", root);
	env_set(env, "VAGRANT_DOTFILE_PATH", dotfile);
	env_set(env, "VAGRANT_VAGRANTFILE", VAGRANT_HELPER);
	env_set(env, "VAGRANT_NO_COLOR", "1");
	env_set(env, "VAGRANT_CHECKPOINT_DISABLE", "1");
	if (!env_find(env, "PATH"))
		env_set(env, "PATH",
			"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	return strv_check(env, e);
}

static int make_env(const struct vagrant_want *want, const json_t *access, const char *id,
	const char *lock_dir, struct vagrant_dir *d, struct err *e)
{
	auto_free char *suffix = NULL;
	const char *name;
	json_t *value;

	if (env_of_client(access, &d->env, e) < 0 || str_printf(&suffix, e, "-%s", id) < 0)
		return -1;
	env_set(&d->env, "INSPECT_VM_SUFFIX", suffix);
	env_set(&d->env, "MOAT_BOX_LOCKS", lock_dir);
	if (want->provider) /* some runs take no option for it */
		env_set(&d->env, "VAGRANT_DEFAULT_PROVIDER", want->provider);
	json_object_foreach(want->env, name, value)
		env_set(&d->env, name, json_string_value(value));
	return fix_env(&d->env, d->root, e);
}

/* Whether a variable's name tells of a secret. What the spec itself sets is kept all the same:
 * without it the Vagrantfile may name other machines. */
static bool looks_secret(const char *variable, const json_t *given)
{
	static const char *const hints[] = {
		"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"};
	size_t len = strcspn(variable, "=");
	char name[256];

	if (len >= sizeof(name))
		return true;
	memcpy(name, variable, len);
	name[len] = 0;
	if (json_object_get(given, name))
		return false;
	for (unsigned i = 0; i < ARRAY_LEN(hints); i++)
		if (strcasestr(name, hints[i]))
			return true;
	return false;
}

/* A later daemon needs the environment to destroy the machines after this one has died. */
static int save_env(const struct vagrant_dir *d, const json_t *given, struct err *e)
{
	auto_buf struct buf text = {0};
	auto_free char *path = NULL;

	if (str_printf(&path, e, "%s/" VAGRANT_ENV_FILE, d->path) < 0)
		return -1;
	for (size_t i = 0; i < d->env.n; i++)
		if (!looks_secret(d->env.v[i], given) &&
			buf_add(&text, d->env.v[i], strlen(d->env.v[i]) + 1, e) < 0)
			return -1;
	return file_write_atomic(path, buf_data(&text), text.len, 0600, e);
}

/* The client that asks for the removal sends the secrets, which save_env has left out. */
static int add_secrets(const json_t *access, struct strv *env, struct err *e)
{
	auto_strv struct strv theirs = {0};

	if (env_of_client(access, &theirs, e) < 0)
		return -1;
	for (size_t i = 0; i < theirs.n; i++)
		if (looks_secret(theirs.v[i], NULL) && !env_find(env, theirs.v[i]))
			strv_add(env, theirs.v[i]);
	return 0;
}

static int load_env(struct vagrant_dir *d, const json_t *access, struct err *e)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len = 0;

	if (str_printf(&path, e, "%s/" VAGRANT_ENV_FILE, d->path) < 0)
		return -1;
	if (file_read(path, ENV_MAX, &text, &len, e) < 0) {
		if (e->kind != ERR_NOT_FOUND)
			return -1;
		/* The crash came before the environment was written: the client's is the best
		 * guess. */
		if (env_of_client(access, &d->env, e) < 0)
			return -1;
	}
	for (size_t at = 0; at < len; at += strlen(text + at) + 1)
		strv_add(&d->env, text + at);
	/* The daemon's environment counts as well: it is that of the client that started it, often
	 * the same terminal. */
	if (add_secrets(access, &d->env, e) < 0 || add_secrets(NULL, &d->env, e) < 0)
		return -1;
	return fix_env(&d->env, d->root, e);
}

/* ---- its life ---- */

/* The root has the name of the directory, because hypervisors name machines after it. */
static int name_root(struct vagrant_dir *d, struct err *e)
{
	const char *slash = strrchr(d->path, '/');

	return str_printf(&d->root, e, "%s/%s", d->path, slash ? slash + 1 : d->path);
}

static int open_log(struct vagrant_dir *d, struct err *e)
{
	auto_free char *path = NULL;

	return str_printf(&path, e, "%s/" VAGRANT_LOG_FILE, d->path) < 0 ||
			       caplog_open(&d->log, path, e) < 0
		       ? -1
		       : 0;
}

void vagrant_dir_init(struct vagrant_dir *d, const char *guard)
{
	*d = (struct vagrant_dir){.log = CAPLOG_NONE, .guard = guard};
	lock_init(&d->log_mu, "vagrant_dir.log_mu", LOCK_OUTER);
}

int vagrant_dir_make(const struct op *op, const struct vagrant_want *want, const json_t *access,
	const char *id, const char *lock_dir, struct vagrant_dir *d, struct err *e)
{
	if (name_root(d, e) < 0)
		return -1;
	if (mkdir(d->path, 0700) < 0 || mkdir(d->root, 0700) < 0)
		return err_sys(e, errno, "%s", d->path);
	if (want->dir && copy_tree(op, want->dir, d->root, e) < 0)
		return err_wrap(e, "copying %s", want->dir);
	if (copy_vagrantfile(want->vagrantfile, d->root, e) < 0 || write_helper(d->root, e) < 0 ||
		make_env(want, access, id, lock_dir, d, e) < 0 || save_env(d, want->env, e) < 0)
		return -1;
	return open_log(d, e);
}

int vagrant_dir_open(const char *path, const json_t *access, struct vagrant_dir *d, struct err *e)
{
	if (str_dup(path, &d->path, e) < 0 || name_root(d, e) < 0 || load_env(d, access, e) < 0)
		return -1;
	/* Without a root there is nothing that Vagrant could do: a crash came before it was made,
	 * or after it was removed, or somebody deleted it. */
	if (!path_exists(d->root))
		return 0;
	return write_helper(d->root, e) < 0 ? -1 : open_log(d, e);
}

void vagrant_dir_close(struct vagrant_dir *d)
{
	caplog_close(&d->log);
	strv_free(&d->env);
	free(d->path);
	free(d->root);
	lock_done(&d->log_mu);
}

/* What a note says: the domain's name, and where libvirt is. */
static void read_note(const struct vagrant_dir *d, struct vagrant_left *m)
{
	auto_free char *path = NULL, *text = NULL;
	struct err none;
	char *uri;

	if (str_printf(&path, &none, "%s/" VAGRANT_NOTES "/" NOTE_START "%s", d->path, m->name) <
			0 ||
		file_read(path, NOTE_MAX, &text, NULL, &none) < 0)
		return;
	uri = strchr(text, '\n');
	if (!uri)
		return;
	*uri++ = 0;
	uri[strcspn(uri, "\r\n")] = 0;
	/* A name that was cut would be another one. */
	if (strlen(text) < sizeof(m->domain))
		memcpy(m->domain, text, strlen(text) + 1);
	snprintf(m->uri, sizeof(m->uri), "%s", uri);
}

static int id_path(const struct vagrant_dir *d, const char *name, const char *provider, char **ret,
	struct err *e)
{
	return str_printf(ret, e, "%s/.vagrant/machines/%s/%s/id", d->root, name, provider);
}

/* Adds the machine if there is one: the file with its id is there from its making to its end. */
static void add_left(const struct vagrant_dir *d, const char *name, const char *provider,
	struct vagrant_left *ret, unsigned *n)
{
	auto_free char *path = NULL, *id = NULL;
	struct vagrant_left *m = &ret[*n];
	struct err none;
	size_t len;

	if (*n == VAGRANT_MACHINES_MAX || id_path(d, name, provider, &path, &none) < 0 ||
		file_read(path, NOTE_MAX, &id, NULL, &none) < 0)
		return;
	len = strcspn(id, "\r\n");
	if (!len) /* to Vagrant, too, this is no machine */
		return;
	*m = (struct vagrant_left){0};
	snprintf(m->name, sizeof(m->name), "%.*s", (int)sizeof(m->name) - 1, name);
	snprintf(m->provider, sizeof(m->provider), "%.*s", (int)sizeof(m->provider) - 1, provider);
	snprintf(m->id, sizeof(m->id), "%.*s", (int)len, id);
	read_note(d, m);
	++*n;
}

/* Adds the machines that Vagrant knows. */
static void add_known(const struct vagrant_dir *d, struct vagrant_left *ret, unsigned *n)
{
	auto_free char *path = NULL;
	auto_dir DIR *machines = NULL;
	struct dirent *name, *provider;
	struct err none;

	if (str_printf(&path, &none, "%s/.vagrant/machines", d->root) < 0 ||
		!(machines = opendir(path)))
		return;
	while ((name = readdir(machines))) {
		auto_free char *below = NULL;
		auto_dir DIR *providers = NULL;

		if (name->d_name[0] == '.' ||
			str_printf(&below, &none, "%s/%s", path, name->d_name) < 0 ||
			!(providers = opendir(below)))
			continue;
		while ((provider = readdir(providers)))
			if (provider->d_name[0] != '.')
				add_left(d, name->d_name, provider->d_name, ret, n);
	}
}

static bool is_in(const struct vagrant_left *left, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(left[i].name, name) == 0 && strcmp(left[i].provider, "libvirt") == 0)
			return true;
	return false;
}

/* Adds those of which there is only a note: it is written before the machine is made. */
static void add_noted(const struct vagrant_dir *d, struct vagrant_left *ret, unsigned *n)
{
	auto_free char *path = NULL;
	auto_dir DIR *notes = NULL;
	struct dirent *ent;
	struct err none;

	if (str_printf(&path, &none, "%s/" VAGRANT_NOTES, d->path) < 0)
		return;
	notes = opendir(path);
	while (notes && *n < VAGRANT_MACHINES_MAX && (ent = readdir(notes))) {
		struct vagrant_left m = {.provider = "libvirt"};

		if (!str_starts(ent->d_name, NOTE_START))
			continue;
		snprintf(m.name, sizeof(m.name), "%.*s", (int)sizeof(m.name) - 1,
			ent->d_name + strlen(NOTE_START));
		if (is_in(ret, *n, m.name))
			continue;
		read_note(d, &m);
		ret[(*n)++] = m;
	}
}

unsigned vagrant_dir_left(const struct vagrant_dir *d, struct vagrant_left *ret)
{
	unsigned n = 0;

	add_known(d, ret, &n);
	add_noted(d, ret, &n);
	return n;
}

bool vagrant_dir_has_machines(const struct vagrant_dir *d)
{
	struct vagrant_left left[VAGRANT_MACHINES_MAX];

	return vagrant_dir_left(d, left) > 0;
}

int vagrant_dir_forget(
	const struct vagrant_dir *d, const struct vagrant_left *machine, struct err *e)
{
	auto_free char *id = NULL, *note = NULL;

	if (id_path(d, machine->name, machine->provider, &id, e) < 0 ||
		str_printf(&note, e, "%s/" VAGRANT_NOTES "/" NOTE_START "%s", d->path,
			machine->name) < 0)
		return -1;
	if ((unlink(id) < 0 && errno != ENOENT) || (unlink(note) < 0 && errno != ENOENT))
		return err_sys(e, errno, "%s", id);
	return 0;
}
