#include "compose/service.h"

#include <string.h>

#include "compose/keys.h"
#include "compose/text/ports.h"
#include "compose/text/values.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

json_t *service_get(const struct service *s, const char *name)
{
	json_t *value = json_object_get(s->body, name);

	return json_is_null(value) ? NULL : value;
}

int service_wrap(const struct service *s, const char *name, struct err *e)
{
	return err_wrap(e, "services.%s.%s", s->name, name);
}

int service_refuse(const struct service *s, const char *name, const char *why, struct err *e)
{
	return spec_unsupported(e, SPEC_PLACE("services.%s.%s", s->name, name), "%s", why);
}

int service_accept(const struct service *s, const char *name, const char *why, struct err *e)
{
	return model_accept(s->m, s->file, SPEC_PLACE("services.%s.%s", s->name, name), why, e);
}

/* The build of another service of the file that makes an image of this name; NULL: none. */
static const json_t *built_elsewhere(const struct service *s, const char *image)
{
	const char *name;
	json_t *entry;

	json_object_foreach(s->m->services, name, entry) {
		const json_t *body = json_object_get(entry, "body");
		const char *made = json_string_value(json_object_get(body, "image"));

		if (made && strcmp(made, image) == 0 && json_object_get(body, "build"))
			return json_object_get(body, "build");
	}
	return NULL;
}

/* A text of `build`; NULL: absent or null. */
static int build_text(const struct service *s, const json_t *build, const char *name,
	const char **ret, struct err *e)
{
	const json_t *given = json_object_get(build, name);

	*ret = json_string_value(given);
	if (given && !json_is_null(given) && !*ret)
		return spec_err(
			e, SPEC_PLACE("services.%s.build.%s", s->name, name), "expected a text");
	return 0;
}

static int put_build(struct service *s, const json_t *build, struct err *e)
{
	const char *file = NULL, *target = NULL;
	json_t *made = NULL;

	if (build_text(s, build, "dockerfile", &file, e) < 0 ||
		build_text(s, build, "target", &target, e) < 0)
		return -1;
	if (json_make(&made, e, "{s:{s:O, s:s, s:s*, s:O}}", "dockerfile", "context",
		    json_object_get(build, "context"), "file", file ? file : "Dockerfile", "target",
		    target, "args", json_object_get(build, "args")) < 0)
		return -1;
	return json_put(s->vm, "source", made, e);
}

/* Whether the image is one that the user has made, under a name of the image store. */
static int is_local(const struct service *s, const char *image, bool *ret, struct err *e)
{
	const json_t *mark = service_get(s, "x-local");

	*ret = false;
	if (mark && value_flag(mark, ret, e) < 0)
		return service_wrap(s, "x-local", e);
	*ret = *ret && !strpbrk(image, "/@");
	return 0;
}

static int put_source(struct service *s, struct err *e)
{
	bool local;

	json_t *image = service_get(s, "image");
	const json_t *build = service_get(s, "build");
	json_t *made = NULL;

	if (image && !json_is_string(image))
		return spec_err(e, SPEC_PLACE("services.%s.image", s->name),
			"expected the name of an image");
	if (build && keys_check(s->m, KEY_OF_BUILD, s->file, build,
			     SPEC_PLACE("services.%s.build", s->name), e) < 0)
		return -1;
	if (build && s->m->req->prebuilt) {
		if (!image)
			return service_refuse(s, "build",
				"nothing is to be built; name an image that was, with image", e);
		build = NULL;
	} else if (!build && image && !s->m->req->prebuilt) {
		build = built_elsewhere(s, json_string_value(image));
	}
	if (build)
		return put_build(s, build, e);
	if (!image)
		return spec_err(
			e, SPEC_PLACE("services.%s", s->name), "has neither image nor build");
	if (!*json_string_value(image))
		return spec_err(e, SPEC_PLACE("services.%s.image", s->name), "is empty");
	if (is_local(s, json_string_value(image), &local, e) < 0 ||
		json_make(&made, e, "{s:O}", local ? "image" : "oci", image) < 0)
		return -1;
	return json_put(s->vm, "source", made, e);
}

static const char *condition_of(const json_t *dependency)
{
	static const struct {
		const char *compose, *spec;
	} conditions[] = {{"service_started", "started"}, {"service_healthy", "healthy"},
		{"service_completed_successfully", "completed"}};
	const char *given = json_string_value(json_object_get(dependency, "condition"));

	for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
		if (strcmp(given ? given : "service_started", conditions[i].compose) == 0)
			return conditions[i].spec;
	return NULL;
}

static int add_dependency(struct service *s, const char *name, const json_t *dependency,
	const json_t *names, json_t *into, struct err *e)
{
	const char *place = SPEC_PLACE("services.%s.depends_on", s->name);
	const char *condition = condition_of(dependency);
	json_t *vm = json_object_get(names, name), *made = NULL;

	if (!vm && json_is_false(json_object_get(dependency, "required")))
		return 0;
	if (!vm)
		return spec_err(e, place, "there is no service \"%.60s\"", name);
	if (!condition)
		return spec_err(e, SPEC_PLACE("%s.%s.condition", place, name),
			"is not one of service_started, service_healthy, "
			"service_completed_successfully");
	if (json_make(&made, e, "{s:O, s:s}", "vm", vm, "condition", condition) < 0)
		return -1;
	return json_array_append_new(into, made) < 0 ? err_oom(e) : 0;
}

static int put_depends_on(struct service *s, const json_t *names, struct err *e)
{
	auto_json json_t *into = json_array();
	json_t *given = service_get(s, "depends_on"), *one;
	const char *name;
	size_t i;

	if (!into)
		return err_oom(e);
	if (given && !json_is_object(given) && !json_is_array(given))
		return spec_err(e, SPEC_PLACE("services.%s.depends_on", s->name),
			"expected a list or an object");
	json_array_foreach(given, i, one) {
		name = json_string_value(one);
		if (!name)
			return spec_err(e, SPEC_PLACE("services.%s.depends_on[%zu]", s->name, i),
				"expected the name of a service");
		if (add_dependency(s, name, NULL, names, into, e) < 0)
			return -1;
	}
	json_object_foreach(given, name, one)
		if (add_dependency(s, name, one, names, into, e) < 0)
			return -1;
	return json_put(s->vm, "depends_on", take_ptr(&into), e);
}

static int add_forwards(struct service *s, const json_t *item, json_t *into, struct err *e)
{
	struct port_range r;

	if (port_read(item, &r, e) < 0)
		return service_wrap(s, "ports", e);
	if (r.udp)
		return service_accept(
			s, "ports", "a UDP port is not published, only those of TCP", e);
	if (r.elsewhere &&
		service_accept(s, "ports",
			"ports are published at 127.0.0.1, and at no other address", e) < 0)
		return -1;
	for (unsigned i = 0; i < r.count; i++) {
		json_t *one = json_pack("{s:i, s:i}", "port", (int)(r.port + i), "host_port",
			r.host ? (int)(r.host + i) : 0);

		if (json_array_append_new(into, one) < 0)
			return err_oom(e);
	}
	return 0;
}

static int put_ports(struct service *s, struct err *e)
{
	auto_json json_t *into = json_array();
	json_t *given = service_get(s, "ports"), *one;
	size_t i;

	if (!into)
		return err_oom(e);
	if (given && !json_is_array(given))
		return spec_err(e, SPEC_PLACE("services.%s.ports", s->name), "expected a list");
	json_array_foreach(given, i, one)
		if (add_forwards(s, one, into, e) < 0)
			return -1;
	return json_put(s->vm, "forwards", take_ptr(&into), e);
}

/* A container_name would be one container's alone; VMs of several sandboxes have the same names
 * without harm. Other services know it, so it is an alias. */
static int put_container_name(struct service *s, struct err *e)
{
	json_t *name = service_get(s, "container_name");

	if (!name)
		return 0;
	if (!json_is_string(name))
		return spec_err(
			e, SPEC_PLACE("services.%s.container_name", s->name), "expected a name");
	return json_array_append(json_object_get(s->vm, "aliases"), name) < 0 ? err_oom(e) : 0;
}

static int check_only_one(struct service *s, struct err *e)
{
	const json_t *deploy = service_get(s, "deploy");
	const json_t *const counts[] = {
		service_get(s, "scale"), json_object_get(deploy, "replicas")};
	double n;

	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		if (!counts[i] || json_is_null(counts[i]))
			continue;
		if (value_number(counts[i], &n, e) < 0)
			return service_wrap(s, i ? "deploy.replicas" : "scale", e);
		if (n != 1)
			return service_refuse(s, i ? "deploy.replicas" : "scale",
				"a service is one VM; write a service for each", e);
	}
	return 0;
}

static int fill(struct service *s, const json_t *names, struct err *e)
{
	const char *at = SPEC_PLACE("services.%s", s->name);

	if (keys_check(s->m, KEY_OF_SERVICE, s->file, s->body, at, e) < 0 ||
		check_only_one(s, e) < 0 || put_source(s, e) < 0 || service_resources(s, e) < 0 ||
		service_nics(s, e) < 0 || put_container_name(s, e) < 0 ||
		put_depends_on(s, names, e) < 0 || service_health(s, e) < 0 ||
		put_ports(s, e) < 0 || service_runs(s, e) < 0 || service_volumes(s, e) < 0)
		return -1;
	return json_object_set(s->vm, "service", s->runs) < 0 ? err_oom(e) : 0;
}

int service_to_vm(
	struct model *m, const char *name, const json_t *names, json_t **ret, struct err *e)
{
	const json_t *entry = json_object_get(m->services, name);
	auto_json json_t *vm = NULL, *runs = NULL;
	struct service s = {.m = m,
		.name = name,
		.file = json_string_value(json_object_get(entry, "file")),
		.body = json_object_get(entry, "body")};

	if (json_make(&vm, e, "{s:O, s:[]}", "name", json_object_get(names, name), "aliases") < 0 ||
		json_make(&runs, e, "{s:s}", "name", name) < 0)
		return -1;
	s.vm = vm;
	s.runs = runs;
	if (fill(&s, names, e) < 0)
		return err_wrap(e, "%s", s.file);
	*ret = take_ptr(&vm);
	return 0;
}
