/* Translates what a service gets of the machine: memory, processors, devices, its platform. */
#include <math.h>
#include <string.h>

#include "compose/service.h"
#include "compose/text/values.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/str.h"

/* A kernel and its caches need room, too. */
#define RAM_MIN_MB 256
#define RAM_MB     512 /* as the spec says without a number */

#define NO_GPU                                                                                     \
	"VMs have no GPU; leave it out if the eval can do without, or use a provider that has one"

/* Whether a list of reserved devices asks for more than nothing. */
static bool reserves_devices(const struct service *s)
{
	const json_t *resources = json_object_get(service_get(s, "deploy"), "resources");

	return json_array_size(
		       json_object_get(json_object_get(resources, "reservations"), "devices")) > 0;
}

static int check_devices(struct service *s, struct err *e)
{
	static const char *const has[] = {"/dev/kvm", "/dev/fuse", "/dev/net/tun", NULL};
	json_t *given = service_get(s, "devices"), *one;
	size_t i;

	json_array_foreach(given, i, one) {
		const char *text = json_string_value(
			json_is_object(one) ? json_object_get(one, "source") : one);
		size_t len = text ? strcspn(text, ":") : 0;
		bool known = false;

		for (const char *const *at = has; text && *at; at++)
			known |= strlen(*at) == len && strncmp(text, *at, len) == 0;
		if (!known && text &&
			(str_starts(text, "/dev/nvidia") || str_starts(text, "/dev/dri")))
			return service_refuse(s, "devices", NO_GPU, e);
		if (!known)
			return service_refuse(
				s, "devices", "a VM has no devices of this machine", e);
		if (service_accept(
			    s, "devices", "the VM's kernel makes this device where it can", e) < 0)
			return -1;
	}
	return 0;
}

/* platform, runtime, pid and ipc: what kind of machine it wants to be on. */
static int check_machine(struct service *s, struct err *e)
{
	static const char *const ours[] = {"linux", "linux/amd64", "linux/x86_64", "linux/amd64/v1",
		"linux/amd64/v2", "amd64", "x86_64", NULL};
	const char *platform = json_string_value(service_get(s, "platform"));
	const char *runtime = json_string_value(service_get(s, "runtime"));
	const char *const shared[] = {"pid", "ipc"};
	bool known = !platform;

	for (const char *const *at = ours; !known && *at; at++)
		known = strcmp(platform, *at) == 0;
	if (!known)
		return service_refuse(s, "platform",
			"VMs are linux/amd64; name an image that there is for it", e);
	if (runtime && strcmp(runtime, "nvidia") == 0)
		return service_refuse(s, "runtime", NO_GPU, e);
	if (runtime && service_accept(s, "runtime", "a VM takes the place of the runtime", e) < 0)
		return -1;
	if (reserves_devices(s))
		return service_refuse(s, "deploy.resources.reservations.devices", NO_GPU, e);
	if (service_get(s, "gpus"))
		return service_refuse(s, "gpus", NO_GPU, e);
	for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
		const char *with = json_string_value(service_get(s, shared[i]));

		if (with && (strcmp(with, "host") == 0 || strchr(with, ':')))
			return service_refuse(s, shared[i],
				"services are VMs and share no processes or memory", e);
		if (with && service_accept(s, shared[i], "the VM has its own", e) < 0)
			return -1;
	}
	return check_devices(s, e);
}

/* The memory that one member asks for; 0: it does not. */
static int read_memory(
	const struct service *s, const json_t *j, const char *name, uint64_t *ret, struct err *e)
{
	if (!j || json_is_null(j))
		return 0;
	return value_mb(j, ret, e) < 0 ? service_wrap(s, name, e) : 0;
}

static int put_memory(struct service *s, const json_t *resources, struct err *e)
{
	uint64_t limit = 0, kept = 0;

	if (read_memory(s, json_object_get(json_object_get(resources, "limits"), "memory"),
		    "deploy.resources.limits.memory", &limit, e) < 0 ||
		read_memory(s, service_get(s, "mem_limit"), "mem_limit", &limit, e) < 0 ||
		read_memory(s,
			json_object_get(json_object_get(resources, "reservations"), "memory"),
			"deploy.resources.reservations.memory", &kept, e) < 0 ||
		read_memory(s, service_get(s, "mem_reservation"), "mem_reservation", &kept, e) < 0)
		return -1;
	if (!limit && kept <= RAM_MB)
		return 0;
	if (!limit)
		limit = kept;
	if (limit < RAM_MIN_MB) {
		if (service_accept(s, "mem_limit", "a VM has at least 256 MiB of memory", e) < 0)
			return -1;
		limit = RAM_MIN_MB;
	}
	return json_put(s->vm, "ram_mb", json_integer((json_int_t)limit), e);
}

static int put_processors(struct service *s, const json_t *resources, struct err *e)
{
	json_t *given = service_get(s, "cpus");
	const char *name = "cpus";
	double n;

	if (!given) {
		given = json_object_get(json_object_get(resources, "limits"), "cpus");
		name = "deploy.resources.limits.cpus";
	}
	if (!given || json_is_null(given))
		return 0;
	if (value_number(given, &n, e) < 0)
		return service_wrap(s, name, e);
	return n > 0 ? json_put(s->vm, "vcpus", json_integer((json_int_t)ceil(n)), e) : 0;
}

int service_resources(struct service *s, struct err *e)
{
	json_t *deploy = service_get(s, "deploy"), *value;
	const json_t *resources = json_object_get(deploy, "resources");
	const char *name;

	json_object_foreach(deploy, name, value)
		if (strcmp(name, "resources") != 0 && strcmp(name, "replicas") != 0 &&
			service_accept(s, SPEC_PLACE("deploy.%s", name),
				"it is for clusters; one machine looks at resources and replicas",
				e) < 0)
			return -1;
	return check_machine(s, e) < 0 || put_memory(s, resources, e) < 0
		       ? -1
		       : put_processors(s, resources, e);
}
