/* The files that a service has besides those of its image: bind mounts, volumes, tmpfs. */
#include <stdlib.h>
#include <string.h>

#include "compose/service.h"
#include "compose/text/paths.h"
#include "compose/text/values.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* One item of `volumes`, in either form. */
struct mount {
	char *source; /* a path of the host, or the name of a volume; NULL: none */
	char *target;
	bool bind, tmpfs, read_only;
	json_t *size, *mode; /* of a tmpfs; borrowed */
};

static void mount_free(struct mount *v)
{
	free(v->source);
	free(v->target);
}
#define auto_mount __attribute__((cleanup(mount_free)))

/* "ro", "rw,z" and so on */
static bool is_read_only(const char *options)
{
	for (const char *at = options; *at; at += strspn(at, ",")) {
		size_t n = strcspn(at, ",");

		if (n == 2 && strncmp(at, "ro", 2) == 0)
			return true;
		at += n;
	}
	return false;
}

/* "/data", "name:/data", "/host/path:/data:ro"; the host's path is absolute by now. */
static int read_short(const char *text, struct mount *ret, struct err *e)
{
	const char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;

	if (!first)
		return str_dup(text, &ret->target, e);
	ret->bind = text[0] == '/';
	ret->read_only = second && is_read_only(second + 1);
	if (str_printf(&ret->source, e, "%.*s", (int)(first - text), text) < 0)
		return -1;
	return second ? str_printf(&ret->target, e, "%.*s", (int)(second - first - 1), first + 1)
		      : str_dup(first + 1, &ret->target, e);
}

static int read_long(const json_t *j, struct mount *ret, struct err *e)
{
	const char *type = json_string_value(json_object_get(j, "type"));
	const char *source = json_string_value(json_object_get(j, "source"));
	const char *target = json_string_value(json_object_get(j, "target"));
	const json_t *tmpfs = json_object_get(j, "tmpfs"),
		     *read_only = json_object_get(j, "read_only");

	if (!type || !target)
		return err_set(e, ERR_INVALID, "needs type and target");
	ret->bind = strcmp(type, "bind") == 0;
	ret->tmpfs = strcmp(type, "tmpfs") == 0;
	if (!ret->bind && !ret->tmpfs && strcmp(type, "volume") != 0)
		return err_set(e, ERR_UNSUPPORTED, "its type is not one of bind, volume, tmpfs");
	if (ret->bind && !source)
		return err_set(e, ERR_INVALID, "a bind mount needs source");
	ret->size = json_object_get(tmpfs, "size");
	ret->mode = json_object_get(tmpfs, "mode");
	if (read_only && value_flag(read_only, &ret->read_only, e) < 0)
		return -1;
	if (source && str_dup(source, &ret->source, e) < 0)
		return -1;
	return str_dup(target, &ret->target, e);
}

/* Whether an item of a service uses the volume of this name. */
static bool names_volume(const json_t *item, const char *volume)
{
	const char *text =
		json_string_value(json_is_object(item) ? json_object_get(item, "source") : item);
	size_t len = strlen(volume);

	return text && strncmp(text, volume, len) == 0 &&
	       (json_is_object(item) ? text[len] == '\0' : text[len] == ':');
}

/* Another service that has the volume as well; NULL: none. */
static const char *shared_with(const struct service *s, const char *volume)
{
	const char *name;
	json_t *entry, *item;
	size_t i;

	json_object_foreach(s->m->services, name, entry) {
		if (strcmp(name, s->name) == 0)
			continue;
		json_array_foreach(
			json_object_get(json_object_get(entry, "body"), "volumes"), i, item)
			if (names_volume(item, volume))
				return name;
	}
	return NULL;
}

static int check_named(const struct service *s, const char *volume, struct err *e)
{
	const json_t *entry = json_object_get(s->m->volumes, volume);
	const json_t *body = json_object_get(entry, "body");
	const char *other = shared_with(s, volume);

	if (!entry)
		return err_set(e, ERR_INVALID,
			"there is no volume \"%.60s\" under volumes at the top", volume);
	if (json_object_get(body, "external") && !json_is_false(json_object_get(body, "external")))
		return err_set(e, ERR_UNSUPPORTED,
			"the volume \"%.60s\" is outside of the file; write a bind mount of a "
			"directory",
			volume);
	if (other)
		return err_set(e, ERR_UNSUPPORTED,
			"the volume \"%.60s\" is that of %s, too, but services are VMs and share "
			"no "
			"directories; put both programs into one service, or let one fetch the "
			"files from the other over the network",
			volume, other);
	return 0;
}

static bool is_engine_socket(const char *path)
{
	return str_ends(path, "/docker.sock") || str_ends(path, "/podman.sock");
}

static int put_bind(const struct mount *v, json_t *binds, struct err *e)
{
	json_t *one = NULL;

	if (is_engine_socket(v->source))
		return err_set(e, ERR_UNSUPPORTED,
			"there is no container engine outside of the VM; run one in it");
	if (json_make(&one, e, "{s:s, s:s, s:b}", "host", v->source, "path", v->target, "read_only",
		    v->read_only) < 0)
		return -1;
	return json_array_append_new(binds, one) < 0 ? err_oom(e) : 0;
}

static int add_tmpfs(const char *path, uint64_t mb, const char *mode, json_t *into, struct err *e)
{
	json_t *one = NULL;

	if (json_make(&one, e, "{s:s, s:o*, s:s*}", "path", path, "size_mb",
		    mb ? json_integer((json_int_t)mb) : NULL, "mode", mode) < 0)
		return -1;
	return json_array_append_new(into, one) < 0 ? err_oom(e) : 0;
}

static int put_tmpfs_mount(const struct mount *v, json_t *into, struct err *e)
{
	auto_free char *mode = NULL;
	uint64_t mb = 0;

	if (v->size && value_mb(v->size, &mb, e) < 0)
		return err_wrap(e, "tmpfs.size");
	if (json_is_integer(v->mode)) {
		if (str_printf(&mode, e, "%03o", (unsigned)json_integer_value(v->mode)) < 0)
			return -1;
	} else if (v->mode && value_text(v->mode, &mode, e) < 0) {
		return err_wrap(e, "tmpfs.mode");
	}
	return add_tmpfs(v->target, mb, mode, into, e);
}

static int put_mount(struct service *s, const json_t *item, json_t *binds, json_t *volumes,
	json_t *tmpfs, struct err *e)
{
	auto_mount struct mount v = {0};
	auto_free char *target = NULL;
	int rc = json_is_string(item)   ? read_short(json_string_value(item), &v, e)
		 : json_is_object(item) ? read_long(item, &v, e)
					: err_set(e, ERR_INVALID, "expected a text or an object");

	if (rc < 0)
		return -1;
	if (v.target[0] != '/')
		return err_set(e, ERR_INVALID, "\"%.60s\" is not an absolute path", v.target);
	if (path_below("/", v.target, &target, e) < 0)
		return -1;
	free(v.target);
	v.target = take_ptr(&target);
	if (v.bind)
		return put_bind(&v, binds, e);
	if (v.tmpfs)
		return put_tmpfs_mount(&v, tmpfs, e);
	if (v.source && check_named(s, v.source, e) < 0)
		return -1;
	return json_array_append_new(volumes, json_string(v.target)) < 0 ? err_oom(e) : 0;
}

/* An item of `tmpfs`: "/run" or "/run:size=64m,mode=1777,noexec" */
static int put_tmpfs(struct service *s, const json_t *item, json_t *into, struct err *e)
{
	const char *text = json_string_value(item), *options;
	auto_free char *path = NULL, *mode = NULL;
	uint64_t mb = 0;

	if (!text || text[0] != '/')
		return err_set(e, ERR_INVALID, "expected an absolute path");
	options = text + strcspn(text, ":");
	if (str_printf(&path, e, "%.*s", (int)(options - text), text) < 0)
		return -1;
	for (options += *options == ':'; *options;) {
		size_t n = strcspn(options, ",");

		if (n > 5 && strncmp(options, "size=", 5) == 0) {
			auto_json json_t *size = json_stringn(options + 5, n - 5);

			if (value_mb(size, &mb, e) < 0)
				return err_wrap(e, "size");
		} else if (n > 5 && strncmp(options, "mode=", 5) == 0) {
			free(mode);
			mode = NULL;
			if (str_printf(&mode, e, "%.*s", (int)(n - 5), options + 5) < 0)
				return -1;
		} else if (service_accept(s, "tmpfs", "only size and mode are looked at", e) < 0) {
			return -1;
		}
		options += n + (options[n] == ',');
	}
	return add_tmpfs(path, mb, mode, into, e);
}

int service_volumes(struct service *s, struct err *e)
{
	auto_json json_t *binds = json_array(), *volumes = json_array(), *tmpfs = json_array(),
			 *list = NULL;
	json_t *given = service_get(s, "volumes"), *item;
	size_t i;

	if (!binds || !volumes || !tmpfs)
		return err_oom(e);
	if (given && !json_is_array(given))
		return spec_err(e, SPEC_PLACE("services.%s.volumes", s->name), "expected a list");
	json_array_foreach(given, i, item)
		if (put_mount(s, item, binds, volumes, tmpfs, e) < 0)
			return err_wrap(e, "services.%s.volumes[%zu]", s->name, i);
	given = service_get(s, "tmpfs");
	list = json_is_array(given) ? json_incref(given) : json_pack("[O*]", given);
	json_array_foreach(list, i, item)
		if (put_tmpfs(s, item, tmpfs, e) < 0)
			return err_wrap(e, "services.%s.tmpfs", s->name);
	if (json_put(s->runs, "binds", take_ptr(&binds), e) < 0 ||
		json_put(s->runs, "volumes", take_ptr(&volumes), e) < 0)
		return -1;
	return json_put(s->runs, "tmpfs", take_ptr(&tmpfs), e);
}
