#include "net/report.h"

#include <string.h>

#include "util/json.h"

#define ADDR(a) ipv4_text(a, (char[IPV4_TEXT_MAX]){0})

static json_t *addr_or_null(uint32_t addr)
{
	return addr ? json_string(ADDR(addr)) : json_null();
}

static json_t *show_subnets(const struct net_vnet *v)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < v->n_subnets; i++) {
		const struct net_subnet *sub = &v->subnets[i];
		json_t *ranges = json_array();
		char net[NET_TEXT_MAX];

		for (size_t r = 0; ranges && r < sub->n_ranges; r++)
			json_array_append_new(
				ranges, json_pack("{s:s, s:s}", "start", ADDR(sub->ranges[r].start),
						"end", ADDR(sub->ranges[r].end)));
		json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:b, s:o}", "cidr",
						    ipv4_net_text(sub->cidr, net), "gateway",
						    addr_or_null(sub->gateway ? sub->server : 0),
						    "server", addr_or_null(sub->server), "snat",
						    sub->snat, "dhcp_ranges", ranges));
	}
	return list;
}

static json_t *show_policy(const struct egress_spec *out)
{
	static const char *const modes[] = {
		[SPEC_EGRESS_DENY] = "deny", [SPEC_EGRESS_OPEN] = "open"};
	json_t *domains, *cidrs, *ports;
	char net[NET_TEXT_MAX];

	if (out->mode != SPEC_EGRESS_ALLOW)
		return json_string(modes[out->mode]);
	domains = json_array();
	cidrs = json_array();
	ports = json_array();
	for (size_t i = 0; i < out->allow.n_domains; i++)
		json_array_append_new(domains, json_string(out->allow.domains[i]));
	for (size_t i = 0; i < out->allow.n_cidrs; i++)
		json_array_append_new(cidrs, json_string(ipv4_net_text(out->allow.cidrs[i], net)));
	for (size_t i = 0; i < out->allow.n_ports; i++)
		json_array_append_new(ports, json_integer(out->allow.ports[i]));
	return json_pack(
		"{s:{s:o, s:o, s:o}}", "allow", "domains", domains, "cidrs", cidrs, "ports", ports);
}

static json_t *show_vnets(const struct net_plan *p)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < p->n_vnets; i++) {
		const struct net_vnet *v = &p->vnets[i];

		json_array_append_new(
			list, json_pack("{s:s, s:b, s:b, s:o, s:o}", "alias", v->spec->alias,
				      "dhcp", v->dhcp, "vlan_aware", v->spec->vlan_aware, "egress",
				      show_policy(&v->spec->egress), "subnets", show_subnets(v)));
	}
	return list;
}

/* Takes the next word of a line; false: there is none, or it is too long. */
static bool next_word(const char **at, char *word, size_t room)
{
	size_t n = strcspn(*at, " \n");

	if (!n || n >= room || (*at)[n] != ' ')
		return false;
	memcpy(word, *at, n);
	word[n] = 0;
	*at += n + 1;
	return true;
}

/* Reads a line of dnsmasq's leases, "1763251200 52:54:00:00:00:05 10.99.0.5 hermit *". A guest
 * chooses its name and the length of its MAC, and how many lines there are; the last may be cut. */
static bool is_lease(const char *line, const char *mac, uint32_t *ret)
{
	char expiry[24], theirs[MAC_TEXT_MAX], addr[IPV4_TEXT_MAX];
	struct err e;

	return next_word(&line, expiry, sizeof(expiry)) &&
	       next_word(&line, theirs, sizeof(theirs)) && strcmp(theirs, mac) == 0 &&
	       next_word(&line, addr, IPV4_TEXT_MAX) && ipv4_parse(addr, ret, &e) == 0;
}

uint32_t report_lease(const struct net_plan *p, const json_t *leases, const struct net_nic *n)
{
	const char *at = json_string_value(json_object_get(leases, p->vnets[n->vnet].gate));
	char mac[MAC_TEXT_MAX];
	uint32_t addr;

	mac_text(n->mac, mac);
	while (at && *at) {
		if (is_lease(at, mac, &addr))
			return addr;
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	return 0;
}

static json_t *show_nics(const struct net_plan *p, const json_t *leases)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < p->n_nics; i++) {
		const struct net_nic *n = &p->nics[i];
		const struct net_vnet *v = &p->vnets[n->vnet];
		char mac[MAC_TEXT_MAX];

		mac_text(n->mac, mac);
		json_array_append_new(
			list, json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:i}", "vm",
				      p->spec->vms[n->vm].name, "nic", (int)n->nic, "vnet",
				      v->spec->alias, "mac", mac, "ipv4", addr_or_null(n->ipv4),
				      "lease", addr_or_null(report_lease(p, leases, n)), "vlan_tag",
				      (int)n->vlan_tag));
	}
	return list;
}

static const struct net_nic *nic_at(const struct net_plan *p, const char *address)
{
	for (size_t i = 0; i < p->n_nics; i++)
		if (p->nics[i].ipv4 && strcmp(ADDR(p->nics[i].ipv4), address) == 0)
			return &p->nics[i];
	return NULL;
}

json_t *report_forward(
	const struct net_plan *p, const char *address, json_int_t port, json_int_t host_port)
{
	const struct net_nic *n = nic_at(p, address);

	return json_pack("{s:s, s:s, s:I, s:s, s:I}", "vm", n ? p->spec->vms[n->vm].name : "?",
		"address", address, "port", port, "host", "127.0.0.1", "host_port", host_port);
}

static json_t *show_forwards(const struct net_plan *p, const json_t *forwards)
{
	json_t *list = json_array(), *one;
	size_t i;

	json_array_foreach((json_t *)forwards, i, one) {
		const char *address = json_string_value(json_object_get(one, "address"));

		if (address)
			json_array_append_new(list,
				report_forward(p, address,
					json_integer_value(json_object_get(one, "port")),
					json_integer_value(json_object_get(one, "host_port"))));
	}
	return list;
}

static const char *alias_of(const struct net_plan *p, const char *gate)
{
	for (size_t i = 0; gate && i < p->n_vnets; i++)
		if (strcmp(p->vnets[i].gate, gate) == 0)
			return p->vnets[i].spec->alias;
	return "?";
}

/* Adds an element of nft's list: {"elem": {"val": {"concat": [...]}, "counter": {"packets": n}}}.
 * If "val" is a gate's name, it counts packets that the full set could not list. */
static void add_refused(const struct net_plan *p, const json_t *element, json_t *list)
{
	const json_t *elem = json_object_get(element, "elem");
	const json_t *val = json_object_get(elem, "val"), *key = json_object_get(val, "concat");
	const json_t *packets = json_object_get(json_object_get(elem, "counter"), "packets");
	const char *gate = json_string_value(key ? json_array_get(key, 0) : val);

	if (!gate)
		return;
	json_array_append_new(
		list, json_pack("{s:s, s:O?, s:O?, s:O?, s:O?, s:I}", "vnet", alias_of(p, gate),
			      "from", json_array_get(key, 1), "to", json_array_get(key, 2),
			      "protocol", json_array_get(key, 3), "port", json_array_get(key, 4),
			      "count", json_integer_value(packets)));
}

static void add_set(const struct net_plan *p, const json_t *said, json_t *list)
{
	json_t *all = json_object_get(said, "nftables"), *one, *element;
	size_t i, k;

	json_array_foreach(all, i, one) {
		json_array_foreach(json_object_get(json_object_get(one, "set"), "elem"), k, element)
			add_refused(p, element, list);
	}
}

int report_make(const struct net_plan *p, const json_t *said, json_t **ret, struct err *e)
{
	json_t *names = json_object_get(said, "names"), *connections;

	if (!json_is_array(names))
		return err_set(e, ERR_UNAVAILABLE, "the network's holder lists no names");
	connections = json_array();
	add_set(p, json_object_get(said, "refused"), connections);
	add_set(p, json_object_get(said, "refused_other"), connections);
	add_set(p, json_object_get(said, "refused_more"), connections);
	return json_make(ret, e, "{s:o, s:o, s:o, s:{s:O, s:o}}", "vnets", show_vnets(p), "nics",
		show_nics(p, json_object_get(said, "leases")), "forwards",
		show_forwards(p, json_object_get(said, "forwards")), "refused", "names", names,
		"connections", connections);
}
