#include "compose/networks.h"

#include <string.h>

#include "compose/keys.h"
#include "compose/service.h"
#include "spec/net-addr.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* Where no file says otherwise, network N has 10.89.N.0/24. Where those are taken, networks go on
 * to 10.255.255.0, and then from 172.16.0.0 to 172.31.255.0. */
#define FIRST_NET  0x0a590000u
#define LAST_OF_10 0x0affff00u
#define SECOND_NET 0xac100000u
#define LAST_NET   0xac1fff00u
#define OUR_PREFIX 24

/* Docker calls the network of services that name none "default", and that of network_mode: bridge
 * "bridge". */
#define DEFAULT_NET "default"
#define BRIDGE_NET  "bridge"

/* ---- of a service ---- */

static int use_network(struct service *s, const char *name, struct err *e)
{
	bool known = json_object_get(s->m->networks, name) || strcmp(name, DEFAULT_NET) == 0;

	if (!known)
		return err_set(e, ERR_INVALID,
			"there is no network \"%.60s\" under networks at the top", name);
	return json_put(s->m->used, name, json_true(), e);
}

/* A fixed address goes by DHCP to a MAC address, so there must be one. */
static int add_address(struct service *s, const json_t *options, json_t *nic, struct err *e)
{
	json_t *ipv4 = json_object_get(options, "ipv4_address");
	json_t *mac = json_object_get(options, "mac_address");
	char made[18];

	snprintf(made, sizeof(made), "52:54:00:c0:%02x:%02x", s->m->macs >> 8 & 0xff,
		s->m->macs & 0xff);
	s->m->macs++;
	if (json_is_string(mac) ? json_object_set(nic, "mac", mac) < 0
				: json_is_string(ipv4) &&
					  json_object_set_new(nic, "mac", json_string(made)) < 0)
		return err_oom(e);
	if (json_is_string(ipv4) && json_object_set(nic, "ipv4", ipv4) < 0)
		return err_oom(e);
	return 0;
}

static int check_options(
	struct service *s, const char *network, const json_t *options, struct err *e)
{
	static const char *const known[] = {"aliases", "ipv4_address", "mac_address", NULL};
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)options, name, value) {
		bool taken = false;

		for (const char *const *at = known; *at; at++)
			taken |= strcmp(name, *at) == 0;
		if (!taken &&
			service_accept(s, SPEC_PLACE("networks.%s.%s", network, name),
				"the network has IPv4, and no options for one service", e) < 0)
			return -1;
	}
	return 0;
}

static int add_nic(
	struct service *s, const char *name, const json_t *options, json_t *nics, struct err *e)
{
	json_t *aliases = json_object_get(s->vm, "aliases"), *alias, *nic = NULL;
	size_t i;

	if (use_network(s, name, e) < 0 || check_options(s, name, options, e) < 0)
		return service_wrap(s, "networks", e);
	if (json_make(&nic, e, "{s:s}", "vnet", name) < 0)
		return -1;
	if (json_array_append_new(nics, nic) < 0)
		return err_oom(e);
	json_array_foreach(json_object_get(options, "aliases"), i, alias)
		if (json_array_append(aliases, alias) < 0)
			return err_oom(e);
	return add_address(s, options, nic, e);
}

static int add_mode(struct service *s, const char *mode, json_t *nics, struct err *e)
{
	json_t *nic = NULL;

	if (strcmp(mode, "none") == 0)
		return 0;
	if (strcmp(mode, "bridge") != 0 && strcmp(mode, "default") != 0)
		return service_refuse(s, "network_mode",
			strcmp(mode, "host") == 0
				? "no VM is in the network of this machine; leave it out, and "
				  "publish ports"
				: "a VM has a network stack of its own; put both services into one "
				  "network, or both programs into one service",
			e);
	if (json_put(s->m->used, BRIDGE_NET, json_true(), e) < 0 ||
		json_make(&nic, e, "{s:s}", "vnet", BRIDGE_NET) < 0)
		return -1;
	return json_array_append_new(nics, nic) < 0 ? err_oom(e) : 0;
}

int service_nics(struct service *s, struct err *e)
{
	auto_json json_t *nics = json_array();
	json_t *given = service_get(s, "networks"), *one;
	json_t *mode = service_get(s, "network_mode");
	const char *name;
	size_t i;

	if (!nics)
		return err_oom(e);
	if (mode && !json_is_string(mode))
		return spec_err(
			e, SPEC_PLACE("services.%s.network_mode", s->name), "expected a text");
	if (mode && given)
		return spec_err(e, SPEC_PLACE("services.%s.network_mode", s->name),
			"cannot be given together with networks");
	if (given && !json_is_object(given) && !json_is_array(given))
		return spec_err(e, SPEC_PLACE("services.%s.networks", s->name),
			"expected a list or an object");
	if (mode && add_mode(s, json_string_value(mode), nics, e) < 0)
		return -1;
	if (!mode && json_object_size(given) + json_array_size(given) == 0 &&
		add_nic(s, DEFAULT_NET, NULL, nics, e) < 0)
		return -1;
	json_array_foreach(given, i, one) {
		if (!json_is_string(one))
			return spec_err(e, SPEC_PLACE("services.%s.networks[%zu]", s->name, i),
				"expected the name of a network");
		if (add_nic(s, json_string_value(one), NULL, nics, e) < 0)
			return -1;
	}
	json_object_foreach(given, name, one)
		if (add_nic(s, name, one, nics, e) < 0)
			return -1;
	return json_put(s->vm, "nics", take_ptr(&nics), e);
}

/* ---- of the file ---- */

/* A network while it becomes a vnet. */
struct net {
	const char *name, *file;
	const json_t *body; /* NULL: the default one, which nobody described */
	struct ipv4_net cidr;
	uint32_t gateway; /* 0: none given */
	bool internal;
};

static int read_ipam(struct net *n, struct err *e)
{
	const json_t *list = json_object_get(json_object_get(n->body, "ipam"), "config");
	const json_t *first = json_array_get(list, 0);
	const char *subnet = json_string_value(json_object_get(first, "subnet"));
	const char *gateway = json_string_value(json_object_get(first, "gateway"));

	if (json_array_size(list) > 1)
		return spec_unsupported(e, SPEC_PLACE("networks.%s.ipam.config", n->name),
			"a network has one subnet, of IPv4");
	if (subnet && ipv4_net_parse(subnet, &n->cidr, e) < 0)
		return err_wrap(e, "networks.%s.ipam.config[0].subnet", n->name);
	if (gateway && ipv4_parse(gateway, &n->gateway, e) < 0)
		return err_wrap(e, "networks.%s.ipam.config[0].gateway", n->name);
	return 0;
}

static int read_net(struct model *m, const char *name, struct net *ret, struct err *e)
{
	const json_t *entry = json_object_get(m->networks, name);
	const char *at = SPEC_PLACE("networks.%s", name);
	const char *driver;
	struct net n = {.name = name, .file = m->req->path};

	if (entry) {
		n.file = json_string_value(json_object_get(entry, "file"));
		n.body = json_object_get(entry, "body");
	}
	driver = json_string_value(json_object_get(n.body, "driver"));
	if (n.body && keys_check(m, KEY_OF_NETWORK, n.file, n.body, at, e) < 0)
		return -1;
	if (json_object_get(n.body, "external") &&
		!json_is_false(json_object_get(n.body, "external")))
		return spec_unsupported(e, SPEC_PLACE("%s.external", at),
			"networks belong to their sandbox; describe it here");
	if (driver && strcmp(driver, "bridge") != 0 && *driver &&
		model_accept(m, n.file, SPEC_PLACE("%s.driver", at), "it is a vnet of moat", e) < 0)
		return -1;
	n.internal = json_is_true(json_object_get(n.body, "internal"));
	if (read_ipam(&n, e) < 0)
		return -1;
	*ret = n;
	return 0;
}

static bool is_taken(const struct net *nets, size_t n, struct ipv4_net cidr)
{
	for (size_t i = 0; i < n; i++)
		if (nets[i].cidr.prefix && ipv4_net_overlaps(nets[i].cidr, cidr))
			return true;
	return false;
}

/* Chooses subnets for those that have none, beside those that were given. */
static int choose_subnets(struct net *nets, size_t n, struct err *e)
{
	struct ipv4_net next = {FIRST_NET, OUR_PREFIX};

	for (size_t i = 0; i < n; i++) {
		if (nets[i].cidr.prefix)
			continue;
		while (is_taken(nets, n, next) && next.addr < LAST_NET)
			next.addr = next.addr == LAST_OF_10 ? SECOND_NET
							    : next.addr + (1u << (32 - OUR_PREFIX));
		if (is_taken(nets, n, next))
			return spec_err(e, SPEC_PLACE("networks.%s", nets[i].name),
				"the subnets of the others leave none; write ipam");
		nets[i].cidr = next;
	}
	return 0;
}

/* Reads the names that x-inspect_k8s_sandbox allows; NULL if it is not there. */
static int read_allowed(const struct model *m, json_t **ret, struct err *e)
{
	const json_t *body = json_object_get(m->egress, "body");
	json_t *domains = json_object_get(body, "allow_domains"),
	       *cidrs = json_object_get(body, "allow_cidr");
	json_t *one;
	size_t i;

	if (!domains && !cidrs)
		return 0;
	json_array_foreach(domains, i, one)
		if (json_is_string(one) && strcmp(json_string_value(one), "*") == 0)
			return 0; /* everything: as without a list */
	return json_make(ret, e, "{s:{s:O*, s:O*}}", "allow", "domains", domains, "cidrs", cidrs);
}

static json_t *address(uint32_t addr)
{
	char text[IPV4_TEXT_MAX];

	return json_string(ipv4_text(addr, text));
}

/* Addresses for DHCP: the larger part of the subnet beside its gateway. */
static json_t *dhcp_range(struct ipv4_net cidr, uint32_t gateway)
{
	uint32_t first = cidr.addr + 1, last = ipv4_net_last(cidr) - 1;

	if (gateway - first > last - gateway)
		last = gateway - 1;
	else
		first = gateway + 1;
	return json_pack("[{s:o, s:o}]", "start", address(first), "end", address(last));
}

static int add_vnet(const struct model *m, const struct net *n, json_t *allowed, json_t *vnets,
	json_t *leads, struct err *e)
{
	bool closed = n->internal || m->req->closed;
	uint32_t gateway = n->gateway ? n->gateway : n->cidr.addr + 1;
	char net[NET_TEXT_MAX];
	json_t *vnet = NULL;

	ipv4_net_text(n->cidr, net);
	if (!ipv4_net_has(n->cidr, gateway))
		return spec_err(e, SPEC_PLACE("networks.%s.ipam.config[0].gateway", n->name),
			"is outside the subnet %s", net);
	/* An internal network leads nowhere, so that no VM takes it for its default route. */
	if (json_make(&vnet, e, "{s:s, s:o, s:[{s:s, s:o*, s:b, s:o}]}", "alias", n->name, "egress",
		    closed    ? json_string("deny")
		    : allowed ? json_incref(allowed)
			      : json_string("open"),
		    "subnets", "cidr", net, "gateway", n->internal ? NULL : address(gateway),
		    "snat", !closed, "dhcp_ranges", dhcp_range(n->cidr, gateway)) < 0)
		return -1;
	if (json_array_append_new(vnets, vnet) < 0)
		return err_oom(e);
	return json_put(leads, n->name,
		json_string(closed    ? "deny"
			    : allowed ? "allow"
				      : "open"),
		e);
}

int networks_to_spec(struct model *m, json_t **ret, json_t **ret_leads, struct err *e)
{
	auto_json json_t *vnets = json_array(), *leads = json_object(), *allowed = NULL;
	struct net nets[SPEC_VNETS_MAX];
	const char *name;
	json_t *ignored;
	size_t n = 0;

	if (!vnets || !leads)
		return err_oom(e);
	if (json_object_size(m->used) > SPEC_VNETS_MAX)
		return err_set(
			e, ERR_INVALID, "%s: networks: more than %d", m->req->path, SPEC_VNETS_MAX);
	if (read_allowed(m, &allowed, e) < 0)
		return -1;
	json_object_foreach(m->used, name, ignored)
		if (read_net(m, name, &nets[n++], e) < 0)
			return err_wrap(e, "%s", m->req->path);
	if (choose_subnets(nets, n, e) < 0)
		return err_wrap(e, "%s", m->req->path);
	for (size_t i = 0; i < n; i++)
		if (add_vnet(m, &nets[i], allowed, vnets, leads, e) < 0)
			return err_wrap(e, "%s", nets[i].file);
	if (n == 0)
		*ret = json_string("none");
	else if (json_make(ret, e, "{s:O}", "vnets", vnets) < 0)
		return -1;
	*ret_leads = take_ptr(&leads);
	return *ret ? 0 : err_oom(e);
}
