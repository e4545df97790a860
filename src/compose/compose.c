#include "compose/compose.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compose/load.h"
#include "compose/networks.h"
#include "compose/service.h"
#include "compose/text/values.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

#define DEFAULT "default"

/* A Dockerfile alone means what Inspect's Docker provider makes of it. */
static int dockerfile_as_compose(const char *path, json_t **ret, struct err *e)
{
	return json_make(ret, e, "{s:{s:{s:{s:s, s:s}, s:s, s:b, s:s}}}", "services", DEFAULT,
		"build", "context", ".", "dockerfile", strrchr(path, '/') + 1, "command",
		"tail -f /dev/null", "init", 1, "network_mode", "none");
}

/* The service that commands without a name go to: the one that says so, or "default", or the only
 * one, or the first. */
static int find_default(struct model *m, const char **ret, struct err *e)
{
	const char *name, *found = NULL;
	json_t *entry;

	json_object_foreach(m->services, name, entry) {
		const json_t *mark = json_object_get(json_object_get(entry, "body"), "x-default");
		bool marked = false;

		if (mark && !json_is_null(mark) && value_flag(mark, &marked, e) < 0)
			return err_wrap(e, "services.%s.x-default", name);
		if (marked)
			found = name;
	}
	if (!found && json_object_get(m->services, DEFAULT))
		found = DEFAULT;
	if (!found) {
		found = json_object_iter_key(json_object_iter(m->services));
		if (json_object_size(m->services) > 1 &&
			model_accept(m, m->req->path, SPEC_PLACE("services.%s", found),
				"no service is called default or has x-default: true; this one is "
				"the default, because it is the first",
				e) < 0)
			return -1;
	}
	*ret = found;
	return 0;
}

static bool has_name(const json_t *names, const char *name)
{
	const char *service;
	json_t *vm;

	json_object_foreach((json_t *)names, service, vm)
		if (strcasecmp(json_string_value(vm), name) == 0)
			return true;
	return false;
}

/* A host name near the name of a service: "-" for all that no host name has. */
static void host_name(const char *service, char out[static 48])
{
	size_t n = 0;

	for (; *service && n < 47; service++)
		if (isalnum((unsigned char)*service) || (n && out[n - 1] != '-'))
			out[n++] = isalnum((unsigned char)*service) ? *service : '-';
	while (n && out[n - 1] == '-')
		n--;
	out[n] = '\0';
	if (!n)
		snprintf(out, 48, "vm");
}

/* Which VM each service is. Only the default one may be called "default". */
static int name_vms(const struct model *m, const char *first, json_t **ret, struct err *e)
{
	auto_json json_t *names = json_object();
	const char *service;
	json_t *ignored;

	if (!names)
		return err_oom(e);
	json_object_foreach(m->services, service, ignored) {
		bool reserved;
		char host[48], name[64];

		host_name(service, host);
		snprintf(name, sizeof(name), "%s", host);
		reserved = strcasecmp(host, DEFAULT) == 0 && strcmp(service, first) != 0;
		for (unsigned i = 2; reserved || has_name(names, name); i++) {
			snprintf(name, sizeof(name), "%s-%u", host, i);
			reserved = false;
		}
		if (json_put(names, service, json_string(name), e) < 0)
			return -1;
	}
	*ret = take_ptr(&names);
	return 0;
}

/* Services of a profile are started only if somebody asks for the profile. */
static int drop_profiles(struct model *m, struct err *e)
{
	const char *name;
	json_t *entry;
	void *next;

	json_object_foreach_safe(m->services, next, name, entry)
	{
		const json_t *profiles =
			json_object_get(json_object_get(entry, "body"), "profiles");

		if (json_array_size(profiles) == 0)
			continue;
		if (model_accept(m, json_string_value(json_object_get(entry, "file")),
			    SPEC_PLACE("services.%s.profiles", name),
			    "no profile is active, so the service is left out", e) < 0)
			return -1;
		json_object_del(m->services, name);
	}
	if (json_object_size(m->services) == 0)
		return err_set(e, ERR_INVALID, "%s: services: all are of profiles", m->req->path);
	if (json_object_size(m->services) > SPEC_VMS_MAX)
		return err_set(e, ERR_INVALID, "%s: services: %zu; a sandbox has at most %d VMs",
			m->req->path, json_object_size(m->services), SPEC_VMS_MAX);
	return 0;
}

/* The default service first: commands without a VM go to the first. */
static int make_vms(
	struct model *m, const char *first, const json_t *names, json_t *vms, struct err *e)
{
	const char *service;
	json_t *ignored;

	json_object_foreach(m->services, service, ignored) {
		json_t *vm = NULL;
		bool is_first = strcmp(service, first) == 0;

		if (service_to_vm(m, service, names, &vm, e) < 0)
			return -1;
		if (is_first ? json_array_insert_new(vms, 0, vm) < 0
			     : json_array_append_new(vms, vm) < 0)
			return err_oom(e);
	}
	return 0;
}

static int translate(const struct compose_req *req, json_t **ret, struct err *e)
{
	auto_model struct model m = {0};
	auto_json json_t *names = NULL, *vms = json_array(), *networks = NULL, *leads = NULL;
	const char *first = NULL;

	if (!vms)
		return err_oom(e);
	if (model_load(req, &m, e) < 0 || drop_profiles(&m, e) < 0)
		return -1;
	if (find_default(&m, &first, e) < 0)
		return err_wrap(e, "%s", req->path);
	if (name_vms(&m, first, &names, e) < 0 || make_vms(&m, first, names, vms, e) < 0 ||
		networks_to_spec(&m, &networks, &leads, e) < 0)
		return -1;
	return json_make(ret, e, "{s:{s:O, s:O}, s:O, s:O, s:s, s:O}", "spec", "vms", vms,
		"networks", networks, "accepted", m.accepted, "networks", leads, "default", first,
		"services", names);
}

/* The spec is checked here: an error that only this check finds names a place in the spec, and the
 * user must be told that it is not one in the compose file. */
static int check_result(const struct compose_req *req, const json_t *result, struct err *e)
{
	auto_spec struct sandbox_spec *spec = NULL;

	if (spec_parse(json_object_get(result, "spec"), &spec, e) < 0)
		return err_wrap(e, "%s: as a spec of moat", req->path);
	return 0;
}

int compose_translate(const struct compose_req *req, json_t **ret, struct err *e)
{
	auto_json json_t *config = NULL, *made = NULL;
	struct compose_req alone = *req;

	if (!req->config && compose_is_dockerfile(req->path)) {
		if (dockerfile_as_compose(req->path, &config, e) < 0)
			return -1;
		alone.config = config;
	}
	if (translate(&alone, &made, e) < 0 || check_result(req, made, e) < 0)
		return -1;
	*ret = take_ptr(&made);
	return 0;
}
