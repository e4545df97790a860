#include "compose/keys.h"

#include <string.h>

#include "spec/spec.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/suggest.h"

struct key {
	const char *name;
	const char *accepted; /* why it has no meaning here; NULL: it has one */
	const char *refused;  /* what to do instead; NULL: it is taken */
};

static const struct key of_file[] = {{"services"}, {"networks"}, {"volumes"}, {"include"},
	{"name", "moat names sandboxes itself, so that several run at once"},
	{"version", "no version of Docker Compose looks at it any more"},
	{"secrets", NULL, "write a bind mount: volumes: [./file:/run/secrets/NAME:ro]"},
	{"configs", NULL, "write a bind mount: volumes: [./file:/NAME:ro]"},
	{"models", NULL, "there is no runner of models"}};

#define EVERYTHING "in a VM root has all rights, over a kernel of its own"
#define LIMITS     "memory and processors are the VM's own: mem_limit and cpus"

static const struct key of_service[] = {{"image"}, {"build"}, {"command"}, {"entrypoint"},
	{"environment"}, {"env_file"}, {"working_dir"}, {"user"}, {"hostname"}, {"mem_limit"},
	{"mem_reservation"}, {"cpus"}, {"deploy"}, {"networks"}, {"network_mode"}, {"depends_on"},
	{"healthcheck"}, {"ports"}, {"extra_hosts"}, {"shm_size"}, {"restart"}, {"platform"},
	{"runtime"}, {"volumes"}, {"tmpfs"}, {"sysctls"}, {"ulimits"}, {"container_name"},
	{"devices"}, {"gpus"}, {"profiles"}, {"extends"}, {"scale"}, {"pid"}, {"ipc"},
	{"x-default"}, {"expose", "all ports of a VM are open to its networks"},
	{"init", "process 1 of a VM is moat's init, which reaps processes"},
	{"privileged", EVERYTHING}, {"cap_add", EVERYTHING},
	{"cap_drop", EVERYTHING ": capabilities are not taken from it"},
	{"security_opt", "there is no container around the service that could be confined"},
	{"userns_mode", "there is no container around the service"},
	{"cgroup", "the VM has control groups of its own"},
	{"cgroup_parent", "the VM has control groups of its own"},
	{"uts", "the VM has a host name of its own"},
	{"read_only", "the root file system of a VM can be written; it goes with the VM"},
	{"stdin_open", "a VM runs on when its service has ended"},
	{"tty", "a VM runs on when its service has ended; commands get a terminal by moat shell"},
	{"pull_policy", "an image is got when it is missing; moat image pull gets it anew"},
	{"x-local"}, {"stop_signal", "VMs are ended at once when the sandbox is removed"},
	{"stop_grace_period", "VMs are ended at once when the sandbox is removed"},
	{"labels", "labels of containers reach no VM"},
	{"label_file", "labels of containers reach no VM"},
	{"annotations", "labels of containers reach no VM"},
	{"logging", "moat logs shows what a service says"},
	{"attach", "moat logs shows what a service says"}, {"develop", "it is for development"},
	{"dns", "moat answers DNS in its networks"},
	{"dns_opt", "moat answers DNS in its networks"},
	{"dns_search", "moat answers DNS in its networks"},
	{"domainname", "hosts of a sandbox have no domain"},
	{"group_add", "a service has the groups that its image gives its user"},
	{"isolation", "a VM is a VM"}, {"storage_opt", "a VM's disk can grow"},
	{"oom_kill_disable", "the VM's own kernel decides"},
	{"oom_score_adj", "the VM's own kernel decides"}, {"pids_limit", LIMITS},
	{"memswap_limit", LIMITS}, {"mem_swappiness", LIMITS}, {"cpu_count", LIMITS},
	{"cpu_percent", LIMITS}, {"cpu_shares", LIMITS}, {"cpu_period", LIMITS},
	{"cpu_quota", LIMITS}, {"cpu_rt_runtime", LIMITS}, {"cpu_rt_period", LIMITS},
	{"cpuset", LIMITS}, {"blkio_config", LIMITS}, {"device_cgroup_rules", EVERYTHING},
	{"mac_address", "moat chooses addresses of network cards"},
	{"links", NULL,
		"services of one network know each other by name; for another name write "
		"networks: {NET: {aliases: [NAME]}}"},
	{"external_links", NULL, "there are no containers outside of the sandbox"},
	{"volumes_from", NULL, "services are VMs and share no directories"},
	{"secrets", NULL, "write a bind mount: volumes: [./file:/run/secrets/NAME:ro]"},
	{"configs", NULL, "write a bind mount: volumes: [./file:/NAME:ro]"},
	{"credential_spec", NULL, "it is for Windows"},
	{"post_start", NULL, "put it into command: [sh, -c, \"...\"]"},
	{"pre_stop", NULL, "VMs are ended at once when the sandbox is removed"},
	{"provider", NULL, "there are no providers of services"},
	{"models", NULL, "there is no runner of models"}};

static const struct key of_build[] = {{"context"}, {"dockerfile"}, {"args"}, {"target"},
	{"dockerfile_inline", NULL, "write it into a file"},
	{"no_cache", "an image is built when what it is made of has changed"},
	{"pull", "an image is built when what it is made of has changed"},
	{"cache_from", "layers are kept by moat"}, {"cache_to", "layers are kept by moat"},
	{"labels", "labels of containers reach no VM"}, {"tags", "services name images themselves"},
	{"platforms", "images are built for this machine"}, {"shm_size", "it is for builds alone"},
	{"network", "builds reach what this machine reaches"},
	{"extra_hosts", "builds know the hosts that this machine knows"},
	{"ulimits", "it is for builds alone"}, {"isolation", "it is for Windows"},
	{"privileged", "builds run as an ordinary user"}, {"provenance", "nothing is published"},
	{"sbom", "nothing is published"},
	{"additional_contexts", NULL, "copy what is needed below the context"},
	{"secrets", NULL, "builds have no secrets; use args"},
	{"ssh", NULL, "builds have no SSH agent"}};

static const struct key of_network[] = {{"internal"}, {"ipam"}, {"driver"}, {"external"},
	{"name", "networks belong to their sandbox"}, {"driver_opts", "it is a vnet of moat"},
	{"attachable", "it is a vnet of moat"}, {"labels", "labels reach no vnet"},
	{"enable_ipv6", "networks have IPv4 only"}, {"enable_ipv4", "networks have IPv4 only"}};

static const struct key of_healthcheck[] = {{"test"}, {"interval"}, {"timeout"}, {"retries"},
	{"start_period"}, {"disable"},
	{"start_interval", "the check is repeated at its interval from the beginning"}};

static const struct {
	const struct key *keys;
	size_t n;
} tables[] = {
	[KEY_OF_FILE] = {of_file, ARRAY_LEN(of_file)},
	[KEY_OF_SERVICE] = {of_service, ARRAY_LEN(of_service)},
	[KEY_OF_BUILD] = {of_build, ARRAY_LEN(of_build)},
	[KEY_OF_NETWORK] = {of_network, ARRAY_LEN(of_network)},
	[KEY_OF_HEALTHCHECK] = {of_healthcheck, ARRAY_LEN(of_healthcheck)},
};

static int unknown(enum key_of of, const char *name, const char *at, struct err *e)
{
	struct suggestion best = {0};
	char shown[64];

	for (size_t i = 0; i < tables[of].n; i++)
		suggest_consider(&best, name, strlen(name), tables[of].keys[i].name);
	str_escape(name, strlen(name), shown, sizeof(shown));
	at = SPEC_PLACE("%s%s%s", at, *at ? "." : "", shown);
	if (best.word)
		return spec_err(e, at, "unknown member; did you mean \"%s\"?", best.word);
	return spec_err(e, at, "unknown member");
}

static const struct key *find(enum key_of of, const char *name)
{
	for (size_t i = 0; i < tables[of].n; i++)
		if (strcmp(tables[of].keys[i].name, name) == 0)
			return &tables[of].keys[i];
	return NULL;
}

/* Extensions of others are none of ours, but a file may rely on them. */
static bool is_extension(const char *name)
{
	return str_starts(name, "x-");
}

int keys_check(struct model *m, enum key_of of, const char *file, const json_t *object,
	const char *at, struct err *e)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		const struct key *key = find(of, name);
		const char *place = SPEC_PLACE("%s%s%s", at, *at ? "." : "", name);

		if (!key && !is_extension(name))
			return unknown(of, name, at, e);
		if (!key || json_is_null(value))
			continue;
		if (key->refused)
			return spec_unsupported(e, place, "%s", key->refused);
		if (key->accepted && model_accept(m, file, place, key->accepted, e) < 0)
			return -1;
	}
	return 0;
}
