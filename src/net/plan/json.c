#include "net/plan/json.h"

#include <string.h>

#include "net/plan/nftables.h"
#include "net/plan/script.h"
#include "util/auto.h"
#include "util/json.h"

typedef int script_fn(const struct net_plan *p, struct buf *ret, struct err *e);

static int add_text(json_t *doc, const char *name, struct buf *b, struct err *e)
{
	auto_free char *text = buf_take_str(b);

	if (!text || json_object_set_new(doc, name, json_string(text)) < 0)
		return err_oom(e);
	return 0;
}

static int add_script(
	json_t *doc, const char *name, script_fn *make, const struct net_plan *p, struct err *e)
{
	auto_buf struct buf b = {0};

	return make(p, &b, e) < 0 ? -1 : add_text(doc, name, &b, e);
}

static int add_dhcp(json_t *doc, const struct net_plan *p, struct err *e)
{
	json_t *all = json_array();

	if (!all || json_object_set_new(doc, "dhcp", all) < 0)
		return err_oom(e);
	for (size_t i = 0; i < p->n_vnets; i++) {
		auto_buf struct buf b = {0};
		json_t *one;

		if (!p->vnets[i].dhcp)
			continue;
		one = json_pack("{s:s}", "gate", p->vnets[i].gate);
		if (json_array_append_new(all, one) < 0)
			return err_oom(e);
		if (net_script_dhcp(p, i, &b, e) < 0 || add_text(one, "conf", &b, e) < 0)
			return -1;
	}
	return 0;
}

/* If several VMs want one name, the first gets it. */
static void add_name(json_t *names, const char *name, uint32_t address)
{
	char text[IPV4_TEXT_MAX];

	if (!json_object_get(names, name))
		json_object_set_new(names, name, json_string(ipv4_text(address, text)));
}

/* Names of the VMs with an address on the vnet, of their services, and what else they are called; a
 * VM's first NIC counts. */
static json_t *names_of(const struct net_plan *p, size_t vnet)
{
	json_t *names = json_object();

	for (size_t i = 0; names && i < p->n_nics; i++) {
		const struct net_nic *n = &p->nics[i];
		const struct vm_spec *vm = &p->spec->vms[n->vm];

		if (n->vnet != vnet || !n->ipv4)
			continue;
		add_name(names, vm->name, n->ipv4);
		if (vm->service)
			add_name(names, vm->service->name, n->ipv4);
		for (size_t k = 0; k < vm->n_aliases; k++)
			add_name(names, vm->aliases[k], n->ipv4);
	}
	return names;
}

static json_t *servers_of(const struct net_vnet *v)
{
	json_t *list = json_array();
	char text[IPV4_TEXT_MAX];

	for (size_t i = 0; list && i < v->n_subnets; i++)
		if (v->subnets[i].server)
			json_array_append_new(
				list, json_string(ipv4_text(v->subnets[i].server, text)));
	return list;
}

static json_t *domains_of(const struct egress_allow *allow)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < allow->n_domains; i++)
		json_array_append_new(list, json_string(allow->domains[i]));
	return list;
}

static json_t *cidrs_of(const struct egress_allow *allow)
{
	json_t *list = json_array();
	char text[NET_TEXT_MAX];

	for (size_t i = 0; list && i < allow->n_cidrs; i++)
		json_array_append_new(list, json_string(ipv4_net_text(allow->cidrs[i], text)));
	return list;
}

static int add_dns(json_t *doc, const struct net_plan *p, struct err *e)
{
	json_t *all = json_array();

	if (!all || json_object_set_new(doc, "dns", all) < 0)
		return err_oom(e);
	for (size_t i = 0; i < p->n_vnets; i++) {
		const struct net_vnet *v = &p->vnets[i];
		const struct egress_spec *out = &v->spec->egress;
		json_t *one;

		if (!v->dns)
			continue;
		one = json_pack("{s:s, s:b, s:b, s:o, s:o, s:o, s:o}", "vnet", v->spec->alias,
			"has_egress", v->has_egress, "open", out->mode == SPEC_EGRESS_OPEN, "names",
			names_of(p, i), "domains", domains_of(&out->allow), "cidrs",
			cidrs_of(&out->allow), "listen", servers_of(v));
		if (json_array_append_new(all, one) < 0)
			return err_oom(e);
		if (v->has_egress && out->mode == SPEC_EGRESS_ALLOW &&
			json_object_set_new(one, "set", json_sprintf(NFTABLES_DNS_SET, i)) < 0)
			return err_oom(e);
	}
	return 0;
}

/* Adds the vnets with a capture, and the interfaces to listen on: taps, then the gate. */
static int add_captures(json_t *doc, const struct net_plan *p, struct err *e)
{
	json_t *all = json_array();

	if (!all || json_object_set_new(doc, "captures", all) < 0)
		return err_oom(e);
	for (size_t i = 0; i < p->n_vnets; i++) {
		json_t *taps = NULL;

		if (!p->vnets[i].spec->capture || p->no_captures)
			continue;
		taps = json_array();
		for (size_t k = 0; taps && k < p->n_nics; k++)
			if (p->nics[k].vnet == i)
				json_array_append_new(taps, json_string(p->nics[k].tap));
		if (json_array_append_new(all, json_pack("{s:i, s:s, s:o}", "vnet", (int)i, "gate",
						       p->vnets[i].gate, "taps", taps)) < 0)
			return err_oom(e);
	}
	return 0;
}

static int add_cables(json_t *doc, const struct net_plan *p, struct err *e)
{
	json_t *all = json_array();

	if (!all || json_object_set_new(doc, "cables", all) < 0)
		return err_oom(e);
	for (size_t i = 0; i < p->n_vnets; i++)
		if (*p->vnets[i].cable &&
			json_array_append_new(all, json_string(p->vnets[i].cable)) < 0)
			return err_oom(e);
	return 0;
}

static int add_egress_link(json_t *doc, const struct net_plan *p, struct err *e)
{
	char address[IPV4_TEXT_MAX], gateway[IPV4_TEXT_MAX];
	json_t *egress;

	if (!p->has_egress)
		return 0;
	egress = json_pack("{s:s, s:s, s:i}", "address", ipv4_text(p->link_address, address),
		"gateway", ipv4_text(p->link_gateway, gateway), "prefix", (int)p->link.prefix);
	return json_object_set_new(doc, "egress", egress) < 0 ? err_oom(e) : 0;
}

int net_plan_to_json(const struct net_plan *p, char **ret, struct err *e)
{
	auto_json json_t *doc = json_object();

	if (!doc ||
		json_object_set_new(doc, "forward", json_boolean(p->has_egress || p->routed)) < 0)
		return err_oom(e);
	if (add_script(doc, "links", net_script_links, p, e) < 0 ||
		add_script(doc, "vlans", net_script_vlans, p, e) < 0 ||
		add_script(doc, "rules", nftables_rules, p, e) < 0 ||
		add_script(doc, "arp", nftables_arp_rules, p, e) < 0 || add_dhcp(doc, p, e) < 0 ||
		add_dns(doc, p, e) < 0 || add_captures(doc, p, e) < 0 ||
		add_cables(doc, p, e) < 0 || add_egress_link(doc, p, e) < 0)
		return -1;
	return json_to_str(doc, ret, e);
}
