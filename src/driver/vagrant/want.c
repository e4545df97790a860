#include "driver/vagrant/want.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/vagrant/env.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* The directory that users of Vagrant in Inspect know. */
#define CACHE_NAME "inspect-vagrant-sandbox"

enum { STARTUPS_MIN = 2, STARTUPS_MAX = 1024 };

static bool is_name(const char *s, const char *end)
{
	if (s == end || (*s >= '0' && *s <= '9'))
		return false;
	for (; s < end; s++)
		if (*s == '=' || (unsigned char)*s < 0x20)
			return false;
	return true;
}

void vagrant_want_free(struct vagrant_want *w)
{
	free(w->vagrantfile);
	free(w->dir);
	free(w->primary);
	free(w->provider);
	free(w->cache_dir);
	json_decref(w->env);
	*w = (struct vagrant_want){0};
}

static int absolute(const char *name, const char *path, struct err *e)
{
	if (path && path[0] != '/')
		return spec_err(e, SPEC_PLACE("native.%s", name),
			"\"%.200s\" is not an absolute path", path);
	return 0;
}

static int check_files(const struct vagrant_want *w, struct err *e)
{
	struct stat st;

	if (w->dir && (stat(w->dir, &st) < 0 || !S_ISDIR(st.st_mode)))
		return spec_err(e, "native.vagrant_dir", "there is no directory %s", w->dir);
	if (stat(w->vagrantfile, &st) < 0 || !S_ISREG(st.st_mode))
		return spec_err(e, "native.vagrantfile", "there is no file %s", w->vagrantfile);
	if (access(w->vagrantfile, R_OK) < 0)
		return spec_err(e, "native.vagrantfile", "%s cannot be read", w->vagrantfile);
	return 0;
}

static int check_env(const json_t *env, struct err *e)
{
	const char *name;
	json_t *value;

	if (env && !json_is_object(env))
		return spec_err(e, "native.env", "expected an object of strings");
	json_object_foreach((json_t *)env, name, value) {
		if (!json_is_string(value) || !is_name(name, name + strlen(name)))
			return spec_err(e, SPEC_PLACE("native.env.%.60s", name),
				"expected a variable with a string as its value");
	}
	return 0;
}

/* A spec may give a machine a user, or say that no commands run in it; the Vagrantfile says the
 * rest.
 */
static int check_vms(const struct sandbox_spec *spec, struct err *e)
{
	for (size_t i = 0; i < spec->n_vms; i++) {
		const struct vm_spec *vm = &spec->vms[i];
		const struct {
			bool given;
			const char *name;
		} refused[] = {{vm->source.kind != SPEC_SOURCE_NONE, "source"},
			{vm->n_nics > 0, "nics"}, {vm->disk_gb > 0, "disk_gb"}, {vm->cpu, "cpu"},
			{vm->healthcheck || vm->no_healthcheck, "healthcheck"},
			{vm->ready_port > 0, "ready_port"}, {vm->n_depends_on > 0, "depends_on"},
			{vm->cdrom, "cdrom"}, {vm->cloud_init, "cloud_init"},
			{vm->n_files > 0, "files"},
			{vm->await_before_next_vm, "await_before_next_vm"}};

		for (unsigned k = 0; k < ARRAY_LEN(refused); k++)
			if (refused[k].given)
				return spec_unsupported(e,
					SPEC_PLACE("vms[%zu].%s", i, refused[k].name),
					"with Vagrant, the Vagrantfile says that");
		if (spec_refuse_containers(vm, i, "only local VMs of the qemu driver have it", e) <
			0)
			return -1;
	}
	if (spec->networks.mode == SPEC_NET_VNETS)
		return spec_unsupported(e, "networks",
			"with Vagrant, the Vagrantfile says what networks there are");
	return 0;
}

static int dup_optional(const char *s, char **ret, struct err *e)
{
	return str_empty(s) ? 0 : str_dup(s, ret, e);
}

static int read_native(const struct sandbox_spec *spec, struct vagrant_want *w, struct err *e)
{
	const char *file = NULL, *dir = NULL, *primary = NULL, *provider = NULL, *cache = NULL;
	json_t *env = NULL, *native = spec->native;
	auto_json json_t *given = json_object();
	const char *key;
	json_t *value;
	int startups = 0, required = 1;

	/* null means that a setting was not given. */
	json_object_foreach(native, key, value)
		if (!json_is_null(value))
			json_object_set(given, key, value);
	if (json_get(given, "native", e, "{s?s, s?s, s?s, s?b, s?s, s?s, s?o, s?i}", "vagrantfile",
		    &file, "vagrant_dir", &dir, "primary_vm", &primary, "primary_vm_required",
		    &required, "provider", &provider, "cache_dir", &cache, "env", &env,
		    "max_startups", &startups) < 0)
		return -1;
	if (startups < 0 || startups > STARTUPS_MAX)
		return spec_err(e, "native.max_startups", "is between 1 and %d", STARTUPS_MAX);
	if (!file && !dir)
		return spec_err(e, "native.vagrantfile", "is missing: the path of a Vagrantfile");
	if (absolute("vagrantfile", file, e) < 0 || absolute("vagrant_dir", dir, e) < 0 ||
		absolute("cache_dir", cache, e) < 0 || check_env(env, e) < 0)
		return -1;
	w->max_startups = (unsigned)startups;
	w->any_primary = !required;
	w->env = env ? json_incref(env) : json_object();
	if (file ? str_dup(file, &w->vagrantfile, e) < 0
		 : str_printf(&w->vagrantfile, e, "%s/Vagrantfile", dir) < 0)
		return -1;
	return dup_optional(dir, &w->dir, e) < 0 || dup_optional(primary, &w->primary, e) < 0 ||
			       dup_optional(provider, &w->provider, e) < 0 ||
			       dup_optional(cache, &w->cache_dir, e) < 0
		       ? -1
		       : 0;
}

static int choose_cache_dir(const struct strv *env, struct vagrant_want *w, struct err *e)
{
	const char *given = env_find(env, "INSPECT_SANDBOX_CACHE_DIR");
	const char *suffix = env_find(env, "INSPECT_SANDBOX_CACHE_SUFFIX");
	const char *xdg = env_find(env, "XDG_CACHE_HOME"), *home = env_find(env, "HOME");
	bool named = !str_empty(suffix);

	if (!str_empty(given))
		return given[0] == '/' ? str_dup(given, &w->cache_dir, e)
				       : err_set(e, ERR_INVALID,
						 "INSPECT_SANDBOX_CACHE_DIR is no absolute path");
	if (!str_empty(xdg) && xdg[0] == '/')
		return str_printf(&w->cache_dir, e, "%s/" CACHE_NAME "%s%s", xdg, named ? "/" : "",
			named ? suffix : "");
	if (str_empty(home))
		return err_set(e, ERR_INVALID, "neither HOME nor INSPECT_SANDBOX_CACHE_DIR is set");
	return str_printf(&w->cache_dir, e, "%s/.cache/" CACHE_NAME "%s%s", home, named ? "/" : "",
		named ? suffix : "");
}

static unsigned choose_startups(const struct strv *env)
{
	const char *given = env_find(env, "INSPECT_MAX_VAGRANT_STARTUPS");
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct err ignored;
	uint64_t n;

	if (given && str_to_u64(given, 1, STARTUPS_MAX, &n, &ignored) == 0)
		return (unsigned)n;
	return cpus > STARTUPS_MIN ? (unsigned)cpus : STARTUPS_MIN;
}

static int read_spec(const struct sandbox_spec *spec, struct vagrant_want *w, struct err *e)
{
	return check_vms(spec, e) < 0 || read_native(spec, w, e) < 0 ? -1 : check_files(w, e);
}

int vagrant_want_check(const struct sandbox_spec *spec, struct err *e)
{
	auto_want struct vagrant_want w = {0};

	return read_spec(spec, &w, e);
}

int vagrant_want_read(const struct sandbox_spec *spec, const json_t *access,
	struct vagrant_want *ret, struct err *e)
{
	auto_want struct vagrant_want w = {0};
	auto_strv struct strv env = {0};

	if (read_spec(spec, &w, e) < 0 || env_of_client(access, &env, e) < 0)
		return -1;
	if (!w.cache_dir && choose_cache_dir(&env, &w, e) < 0)
		return -1;
	if (!w.max_startups)
		w.max_startups = choose_startups(&env);
	*ret = w;
	w = (struct vagrant_want){0};
	return 0;
}
