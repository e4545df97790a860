#include "compose/load.h"

#include <stdlib.h>
#include <string.h>

#include "compose/text/envfile.h"
#include "compose/text/interpolate.h"
#include "compose/keys.h"
#include "compose/text/paths.h"
#include "spec/spec.h"
#include "spec/yaml.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

#define FILES_MAX  64
#define NESTED_MAX 8

/* One file while it is read. */
struct source {
	struct model *m;
	const char *path, *dir;
	json_t *env;
	json_t *body;
	const struct source *includer; /* NULL: the file that was asked for */
};

int json_put(json_t *object, const char *name, json_t *value, struct err *e)
{
	return json_object_set_new(object, name, value) < 0 ? err_oom(e) : 0;
}

int model_accept(
	struct model *m, const char *file, const char *place, const char *why, struct err *e)
{
	json_t *one = NULL;

	if (json_make(&one, e, "{s:s, s:s, s:s}", "file", file, "place", place, "why", why) < 0)
		return -1;
	return json_array_append_new(m->accepted, one) < 0 ? err_oom(e) : 0;
}

void model_free(struct model *m)
{
	json_decref(m->services);
	json_decref(m->networks);
	json_decref(m->volumes);
	json_decref(m->egress);
	json_decref(m->accepted);
	json_decref(m->missing);
	json_decref(m->used);
	*m = (struct model){0};
}

static int read_text(struct model *m, const char *path, char **ret, size_t *ret_len, struct err *e)
{
	if (++m->files > FILES_MAX)
		return err_set(e, ERR_LIMIT, "%s: more than %d files in all", path, FILES_MAX);
	return m->req->files.read(m->req->files.arg, path, ret, ret_len, e);
}

/* Variables of a file of them. optional: it need not be there. */
static int read_variables(
	struct model *m, const char *path, bool optional, json_t *into, struct err *e)
{
	auto_free char *text = NULL;
	size_t len = 0;

	if (read_text(m, path, &text, &len, e) < 0)
		return optional && e->kind == ERR_NOT_FOUND ? 0 : -1;
	if (envfile_read((struct bytes){(const uint8_t *)text, len}, into, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

/* A variable has the value that the client gives it, or else that of the file .env beside ours. */
static int make_env(struct model *m, const char *dir, json_t **ret, struct err *e)
{
	auto_json json_t *env = json_object();
	auto_free char *path = NULL;

	if (!env)
		return err_oom(e);
	if (path_below(dir, ".env", &path, e) < 0 || read_variables(m, path, true, env, e) < 0)
		return -1;
	if (json_object_update(env, m->req->env) < 0)
		return err_oom(e);
	*ret = take_ptr(&env);
	return 0;
}

/* `env_file` and `environment` become one object. */
static int load_environment(struct source *s, json_t *service, const char *at, struct err *e)
{
	auto_json json_t *all = json_object(), *files = NULL;
	json_t *given = json_object_get(service, "env_file"), *one;
	size_t i;

	files = json_is_array(given) ? json_incref(given) : json_pack("[O*]", given);
	if (!all || !files)
		return err_oom(e);
	json_array_foreach(files, i, one) {
		const char *name =
			json_string_value(json_is_object(one) ? json_object_get(one, "path") : one);
		bool optional = json_is_false(json_object_get(one, "required"));
		auto_free char *path = NULL;

		if (json_is_null(one))
			continue;
		if (!name)
			return spec_err(
				e, SPEC_PLACE("%s.env_file", at), "expected names of files");
		if (path_below(s->dir, name, &path, e) < 0 ||
			read_variables(s->m, path, optional, all, e) < 0)
			return err_wrap(e, "%s.env_file", at);
	}
	given = json_object_get(service, "environment");
	if (given && !json_is_null(given) && variables_read(given, s->env, all, e) < 0)
		return err_wrap(e, "%s.environment", at);
	if (json_object_size(all) == 0)
		return 0;
	json_object_del(service, "env_file");
	return json_put(service, "environment", take_ptr(&all), e);
}

/* `build` becomes an object with an absolute context and args by name. */
static int load_build(struct source *s, json_t *service, const char *at, struct err *e)
{
	json_t *given = json_object_get(service, "build"), *context, *args;
	auto_json json_t *build = NULL, *all = json_object();
	auto_free char *path = NULL;

	if (!given || json_is_null(given))
		return 0;
	if (!json_is_object(given) && !json_is_string(given))
		return spec_err(e, SPEC_PLACE("%s.build", at), "expected a directory or an object");
	build = json_is_object(given) ? json_deep_copy(given)
				      : json_pack("{s:O}", "context", given);
	if (!build || !all)
		return err_oom(e);
	context = json_object_get(build, "context");
	if (json_is_null(context))
		context = NULL;
	if (context && !json_is_string(context))
		return spec_err(e, SPEC_PLACE("%s.build.context", at), "expected a directory");
	if (context && strstr(json_string_value(context), "://"))
		return spec_unsupported(e, SPEC_PLACE("%s.build.context", at),
			"only directories of this machine are built; clone it first");
	if (path_below(s->dir, context ? json_string_value(context) : ".", &path, e) < 0 ||
		json_put(build, "context", json_string(path), e) < 0)
		return err_wrap(e, "%s.build.context", at);
	args = json_object_get(build, "args");
	if (args && !json_is_null(args) && variables_read(args, s->env, all, e) < 0)
		return err_wrap(e, "%s.build.args", at);
	if (json_put(build, "args", take_ptr(&all), e) < 0)
		return -1;
	return json_put(service, "build", take_ptr(&build), e);
}

/* The source of a bind mount in short form: up to the colon behind it. */
static int load_short_volume(struct source *s, json_t *volume, struct err *e)
{
	const char *text = json_string_value(volume), *colon = strchr(text, ':');
	auto_free char *name = NULL, *path = NULL, *made = NULL;
	const char *home = json_string_value(json_object_get(s->env, "HOME"));

	if (!colon || !strchr("./~", text[0]))
		return 0;
	if (text[0] == '~' && !home)
		return err_set(e, ERR_INVALID, "~ has no meaning without HOME");
	if (text[0] == '~' ? str_printf(&name, e, "%s%.*s", home, (int)(colon - text - 1),
				     text + 1) < 0
			   : str_printf(&name, e, "%.*s", (int)(colon - text), text) < 0)
		return -1;
	if (path_below(s->dir, name, &path, e) < 0 || str_printf(&made, e, "%s%s", path, colon) < 0)
		return -1;
	return json_string_set(volume, made) < 0 ? err_oom(e) : 0;
}

static int load_volumes(struct source *s, json_t *service, const char *at, struct err *e)
{
	json_t *volume;
	size_t i;

	json_array_foreach(json_object_get(service, "volumes"), i, volume) {
		const char *type = json_string_value(json_object_get(volume, "type"));
		const char *host = json_string_value(json_object_get(volume, "source"));
		auto_free char *path = NULL;
		int rc = 0;

		if (json_is_string(volume))
			rc = load_short_volume(s, volume, e);
		else if (type && host && strcmp(type, "bind") == 0)
			rc = path_below(s->dir, host, &path, e) < 0
				     ? -1
				     : json_put(volume, "source", json_string(path), e);
		if (rc < 0)
			return err_wrap(e, "%s.volumes[%zu]", at, i);
	}
	return 0;
}

/* What a service that extends another has of it: its own members win, lists are joined but for
 * those that are commands. */
static int inherit(json_t *own, const json_t *base, struct err *e)
{
	const char *name;
	json_t *theirs;

	json_object_foreach((json_t *)base, name, theirs) {
		json_t *mine = json_object_get(own, name);
		bool is_command = strcmp(name, "command") == 0 || strcmp(name, "entrypoint") == 0 ||
				  strcmp(name, "test") == 0;

		if (!mine) {
			if (json_put(own, name, json_deep_copy(theirs), e) < 0)
				return -1;
		} else if (json_is_object(mine) && json_is_object(theirs)) {
			if (inherit(mine, theirs, e) < 0)
				return -1;
		} else if (json_is_array(mine) && json_is_array(theirs) && !is_command) {
			auto_json json_t *joined = json_deep_copy(theirs);

			if (!joined || json_array_extend(joined, mine) < 0)
				return err_oom(e);
			if (json_object_set(own, name, joined) < 0)
				return err_oom(e);
		}
	}
	return 0;
}

static int read_source(
	struct model *m, const char *path, json_t *config, struct source *ret, struct err *e);

static void source_free(struct source *s)
{
	json_decref(s->env);
	json_decref(s->body);
}
#define auto_source __attribute__((cleanup(source_free)))

static int load_service(
	struct source *s, const char *name, unsigned depth, json_t **ret, struct err *e);

/* The service that another one extends, of the same file or of another. */
static int load_base(
	struct source *s, const json_t *extends, unsigned depth, json_t **ret, struct err *e)
{
	const char *file = json_string_value(json_object_get(extends, "file"));
	const char *name = json_string_value(
		json_is_string(extends) ? extends : json_object_get(extends, "service"));
	auto_source struct source other = {0};
	auto_free char *path = NULL, *dir = NULL;

	if (!name)
		return err_set(e, ERR_INVALID, "service is missing: which service it extends");
	if (depth == 0)
		return err_set(
			e, ERR_INVALID, "more than %d services extend each other", NESTED_MAX);
	if (!file)
		return load_service(s, name, depth - 1, ret, e);
	if (path_below(s->dir, file, &path, e) < 0 || path_parent(path, &dir, e) < 0)
		return -1;
	other.dir = dir;
	if (read_source(s->m, path, NULL, &other, e) < 0)
		return -1;
	if (load_service(&other, name, depth - 1, ret, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

static int load_service(
	struct source *s, const char *name, unsigned depth, json_t **ret, struct err *e)
{
	const json_t *given = json_object_get(json_object_get(s->body, "services"), name);
	const char *at = SPEC_PLACE("services.%s", name);
	auto_json json_t *body = NULL, *base = NULL;
	const json_t *extends;

	if (!given)
		return err_set(e, ERR_INVALID, "there is no service %s", name);
	if (!json_is_object(given))
		return spec_err(e, at, "expected an object");
	body = json_deep_copy(given);
	if (!body)
		return err_oom(e);
	if (load_environment(s, body, at, e) < 0 || load_build(s, body, at, e) < 0 ||
		load_volumes(s, body, at, e) < 0)
		return -1;
	extends = json_object_get(body, "extends");
	if (extends && !json_is_null(extends) &&
		(load_base(s, extends, depth, &base, e) < 0 || inherit(body, base, e) < 0))
		return err_wrap(e, "%s.extends", at);
	*ret = take_ptr(&body);
	return 0;
}

/* Adds what a file defines, of one kind. What an included file has defined may be there again if it
 * is the same. */
static int add(struct source *s, json_t *all, const char *kind, const char *name, json_t *body,
	struct err *e)
{
	const json_t *before = json_object_get(all, name);
	json_t *entry = NULL;

	if (before && !json_equal(json_object_get(before, "body"), body))
		return spec_err(e, SPEC_PLACE("%s.%s", kind, name), "is another in %s",
			json_string_value(json_object_get(before, "file")));
	if (before)
		return 0;
	if (json_make(&entry, e, "{s:s, s:O}", "file", s->path, "body", body) < 0)
		return -1;
	return json_put(all, name, entry, e);
}

static int add_all(struct source *s, json_t *all, const char *kind, struct err *e)
{
	json_t *given = json_object_get(s->body, kind), *value;
	const char *name;

	if (given && !json_is_null(given) && !json_is_object(given))
		return spec_err(e, kind, "expected an object");
	json_object_foreach(given, name, value) {
		auto_json json_t *body = NULL;

		if (all == s->m->services) {
			if (load_service(s, name, NESTED_MAX, &body, e) < 0)
				return -1;
		} else if (!json_is_null(value) && !json_is_object(value)) {
			return spec_err(e, SPEC_PLACE("%s.%s", kind, name), "expected an object");
		} else {
			body = json_is_null(value) ? json_object() : json_incref(value);
		}
		if (add(s, all, kind, name, body, e) < 0)
			return -1;
	}
	return 0;
}

static int load_file(struct model *m, const char *path, json_t *config, const char *dir,
	const struct source *includer, struct err *e);

/* Each file on the way in is open, so a circle would only end at the limit of files. */
static int check_circle(const struct source *s, const char *path, struct err *e)
{
	for (; s; s = s->includer)
		if (strcmp(s->path, path) == 0)
			return err_set(e, ERR_INVALID, "%s includes itself", path);
	return 0;
}

static int include(struct source *s, const json_t *one, struct err *e)
{
	const json_t *paths = json_is_object(one) ? json_object_get(one, "path") : one;
	const char *dir = json_string_value(json_object_get(one, "project_directory"));
	auto_json json_t *list =
		json_is_array(paths) ? json_incref((json_t *)paths) : json_pack("[O*]", paths);
	auto_free char *given = NULL;
	json_t *name;
	size_t i;

	if (!list || json_array_size(list) == 0)
		return err_set(e, ERR_INVALID, "path is missing: a compose file");
	if (json_object_get(one, "env_file"))
		return err_set(e, ERR_UNSUPPORTED,
			"env_file of an include is not read; put it into a file .env beside the "
			"included file");
	if (dir && path_below(s->dir, dir, &given, e) < 0)
		return -1;
	json_array_foreach(list, i, name) {
		auto_free char *path = NULL, *parent = NULL;

		if (!json_is_string(name))
			return err_set(e, ERR_INVALID, "expected the path of a compose file");
		if (path_below(s->dir, json_string_value(name), &path, e) < 0 ||
			path_parent(path, &parent, e) < 0 || check_circle(s, path, e) < 0 ||
			load_file(s->m, path, NULL, given ? given : parent, s, e) < 0)
			return -1;
	}
	return 0;
}

static int load_includes(struct source *s, struct err *e)
{
	json_t *given = json_object_get(s->body, "include"), *one;
	size_t i;

	if (given && !json_is_null(given) && !json_is_array(given))
		return spec_err(e, "include", "expected a list of files");
	json_array_foreach(given, i, one)
		if (include(s, one, e) < 0)
			return err_wrap(e, "include[%zu]", i);
	return 0;
}

/* Reads the file, or takes config, and puts values in for its variables. ret->dir is set. */
static int read_source(
	struct model *m, const char *path, json_t *config, struct source *ret, struct err *e)
{
	struct interpolation ip = {.missing = m->missing, .made = m->made};
	auto_free char *text = NULL;
	size_t len = 0;

	ret->m = m;
	ret->path = path;
	if (make_env(m, ret->dir, &ret->env, e) < 0)
		return -1;
	if (config) {
		ret->body = json_deep_copy(config);
	} else {
		if (read_text(m, path, &text, &len, e) < 0)
			return -1;
		if (yaml_with_aliases_to_json(
			    (struct bytes){(const uint8_t *)text, len}, &ret->body, e) < 0)
			return err_wrap(e, "%s", path);
	}
	if (!json_is_object(ret->body))
		return err_set(
			e, ERR_INVALID, "%s: no compose file: not an object with services", path);
	ip.env = ret->env;
	if (interpolate_all(&ip, ret->body, "", e) < 0)
		return err_wrap(e, "%s", path);
	m->made = ip.made;
	return 0;
}

static int load_parts(struct source *s, struct err *e)
{
	json_t *egress = json_object_get(s->body, "x-inspect_k8s_sandbox");

	if (keys_check(s->m, KEY_OF_FILE, s->path, s->body, "", e) < 0 || load_includes(s, e) < 0 ||
		add_all(s, s->m->services, "services", e) < 0 ||
		add_all(s, s->m->networks, "networks", e) < 0 ||
		add_all(s, s->m->volumes, "volumes", e) < 0)
		return -1;
	if (egress && !s->m->egress)
		s->m->egress = json_pack("{s:s, s:O}", "file", s->path, "body", egress);
	return egress && !s->m->egress ? err_oom(e) : 0;
}

static int load_file(struct model *m, const char *path, json_t *config, const char *dir,
	const struct source *includer, struct err *e)
{
	auto_source struct source s = {.dir = dir, .includer = includer};

	if (read_source(m, path, config, &s, e) < 0)
		return -1;
	if (load_parts(&s, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

static int tell_missing(struct model *m, struct err *e)
{
	const char *name;
	json_t *ignored;

	json_object_foreach(m->missing, name, ignored)
		if (model_accept(m, m->req->path, SPEC_PLACE("${%s}", name),
			    "the variable has no value; it is empty", e) < 0)
			return -1;
	return 0;
}

int model_load(const struct compose_req *req, struct model *ret, struct err *e)
{
	auto_model struct model m = {.req = req,
		.services = json_object(),
		.networks = json_object(),
		.volumes = json_object(),
		.accepted = json_array(),
		.missing = json_object(),
		.used = json_object()};

	if (!m.services || !m.used || !m.networks || !m.volumes || !m.accepted || !m.missing)
		return err_oom(e);
	if (load_file(&m, req->path, req->config, req->directory, NULL, e) < 0 ||
		tell_missing(&m, e) < 0)
		return -1;
	if (json_object_size(m.services) == 0)
		return err_set(e, ERR_INVALID, "%s: services: there is none", req->path);
	*ret = m;
	m = (struct model){0};
	return 0;
}
