/*
 * Each sandbox has a zone of the server's SDN, with its vnets and subnets. Changes are pending
 * until they are applied to the whole cluster, which takes seconds (sdn.h).
 */
#include "driver/proxmox/network/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/network/apply.h"
#include "driver/proxmox/network/names.h"
#include "driver/proxmox/network/ranges.h"
#include "driver/proxmox/network/sdn.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/spec/args.h"
#include "driver/proxmox/spec/check.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

enum { NAME_TRIES = 5, POST_TRIES = 4, LINK_LOCAL = 0xa9fe };

/* ---- making ---- */

static bool has_ranges(const struct pve_vnet *v)
{
	for (size_t k = 0; k < v->n_subnets; k++)
		if (v->spec->dhcp && v->subnets[k].n_dhcp_ranges)
			return true;
	return false;
}

static bool zone_has_dhcp(const struct pve_sandbox *b)
{
	for (size_t i = 0; i < b->n_vnets; i++)
		if (has_ranges(&b->vnets[i]))
			return true;
	return false;
}

/* Makes something under a name that is ours alone. If the answer was lost and the second try
 * says that the name is taken, then the first try has made it. params is used up. */
static int post_named(
	struct pve_sandbox *b, const struct op *op, json_t *params, const char *path, struct err *e)
{
	auto_json __attribute__((unused)) json_t *used = params;

	for (int i = 0;; i++) {
		if (pve_call(b->api, op, "POST", path, params, PVE_PATIENT, NULL, e) == 0)
			return 0;
		if (i > 0 && pve_says_name_taken(e))
			return 0;
		if (e->kind != ERR_UNAVAILABLE || i + 1 == POST_TRIES)
			return -1;
		if (op_pause(op, 0.1 * (1 << i), e) < 0)
			return -1;
	}
}

static int make_zone(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	json_t *params = json_pack("{s:s, s:s}", "type", "simple", "zone", b->zone);

	if (params && zone_has_dhcp(b)) {
		json_object_set_new(params, "ipam", json_string("pve"));
		json_object_set_new(params, "dhcp", json_string("dnsmasq"));
	}
	if (params && json_is_object(json_object_get(b->spec->native, "zone")))
		json_object_update(params, json_object_get(b->spec->native, "zone"));
	return post_named(b, op, params, "/cluster/sdn/zones", e);
}

static int make_vnet(
	struct pve_sandbox *b, const struct op *op, const struct pve_vnet *v, struct err *e)
{
	auto_free char *alias = NULL, *path = NULL;
	json_t *params;

	/* A vnet has no tags or description: its alias is the only place for our stamp. */
	if (str_printf(&alias, e, "%.180s %s", v->spec->alias, b->stamp) < 0)
		return -1;
	for (char *c = alias; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_. ()",
			    *c))
			*c = '_';
	params = json_pack("{s:s, s:s, s:s}", "vnet", v->id, "zone", b->zone, "alias", alias);
	if (params && v->spec->vlan_aware)
		json_object_set_new(params, "vlanaware", json_true());
	if (post_named(b, op, params, "/cluster/sdn/vnets", e) < 0 ||
		pve_path(&path, e, "/cluster/sdn/vnets/%s/subnets", v->id) < 0)
		return -1;
	for (size_t i = 0; i < v->n_subnets; i++)
		if (pve_subnet_params(v->spec, &v->subnets[i], b->dns, &params, e) < 0 ||
			post_named(b, op, params, path, e) < 0)
			return -1;
	return 0;
}

/* Another try, with another name, helps only if the name was taken. */
static int make_named_zone(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	for (int i = 0;; i++) {
		struct err ignored;

		if (pve_names_take(b, op, e) < 0)
			return -1;
		if (make_zone(b, op, e) == 0)
			return journal_done(b->d->env->journal, b->zone_row, e);
		if (i + 1 == NAME_TRIES || !pve_says_name_taken(e))
			return -1;
		if (journal_gone(b->d->env->journal, b->zone_row, &ignored) < 0)
			return -1;
		pve_names_give(b->site, b->zone);
		b->zone[0] = '\0';
	}
}

static int list_vnets(struct pve_sandbox *b, struct err *e)
{
	const struct networks_spec *net = &b->spec->networks;

	b->vnets = calloc(net->n_vnets ? net->n_vnets : 1, sizeof(*b->vnets));
	if (!b->vnets)
		return err_oom(e);
	b->n_vnets = net->n_vnets;
	for (size_t i = 0; i < b->n_vnets; i++) {
		b->vnets[i].spec = &net->vnets[i];
		b->vnets[i].subnets = net->vnets[i].subnets;
		b->vnets[i].n_subnets = net->vnets[i].n_subnets;
	}
	if (net->mode == SPEC_NET_AUTO) {
		b->vnets[0].subnets = &b->auto_subnet;
		b->vnets[0].n_subnets = 1;
	}
	return 0;
}

/* Guests with egress need a DNS server: the one that the node itself uses, unless that is the
 * node or a service next to it, such as a metadata service. */
static int find_dns(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	auto_json json_t *dns = NULL;
	const char *server;
	struct err ignored;
	uint32_t addr;
	bool out = false;

	for (size_t i = 0; i < b->n_vnets; i++)
		for (size_t k = 0; k < b->vnets[i].n_subnets; k++)
			out |= b->vnets[i].subnets[k].snat && b->vnets[i].spec->dhcp;
	if (!out || b->dns)
		return 0;
	if (pve_do(b->api, op, "GET", NULL, 0, &dns, e, "/nodes/%s/dns", b->inst->node) < 0)
		return e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT ? -1 : 0;
	server = json_string_value(json_object_get(dns, "dns1"));
	if (!server || ipv4_parse(server, &addr, &ignored) < 0 || addr >> 24 == 127 ||
		addr >> 16 == LINK_LOCAL)
		return 0;
	return str_dup(server, &b->dns, e);
}

int pve_net_make(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	enum spec_net_mode mode = b->spec->networks.mode;
	auto_pve_change struct pve_change change = {0};
	uint64_t number;

	if (mode == SPEC_NET_NONE || mode == SPEC_NET_EXISTING || !pve_uses_networks(b->spec))
		return 0;
	op_progress(op, 0, 0, "making networks");
	if (list_vnets(b, e) < 0 || pve_ranges_choose(b, op, e) < 0 || find_dns(b, op, e) < 0)
		return err_wrap(e, "networks");
	pve_change_begin(&change, b->site);
	if (make_named_zone(b, op, e) < 0)
		return err_wrap(e, "networks");
	for (size_t i = 0; i < b->n_vnets; i++)
		if (make_vnet(b, op, &b->vnets[i], e) < 0)
			return err_wrap(e, "network %s", b->vnets[i].spec->alias);
	number = pve_apply_want(b->site);
	pve_change_end(&change);
	return pve_sdn_make(b, op, number, e);
}

/* ---- using ---- */

static int find_existing(
	struct pve_sandbox *b, const struct op *op, const char *alias, char **ret, struct err *e)
{
	auto_json json_t *vnets = NULL;
	const char *found = NULL;
	const json_t *v;
	size_t i;

	if (pve_do(b->api, op, "GET", NULL, 0, &vnets, e, "/cluster/sdn/vnets") < 0)
		return -1;
	json_array_foreach(vnets, i, v) {
		const char *id = json_string_value(json_object_get(v, "vnet"));
		const char *text = json_string_value(json_object_get(v, "alias"));

		if (id && ((text && strcmp(text, alias) == 0) || strcmp(id, alias) == 0)) {
			if (found)
				return err_set(e, ERR_INVALID,
					"%s has several networks with the alias %s", b->inst->id,
					alias);
			found = id;
		}
	}
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "%s has no network with the alias %s", b->inst->id,
			alias);
	return str_dup(found, ret, e);
}

bool pve_net_has_dhcp(const struct pve_sandbox *b, const struct nic_spec *nic)
{
	return nic->vnet_index != SPEC_NO_VNET && nic->vnet_index < b->n_vnets &&
	       has_ranges(&b->vnets[nic->vnet_index]);
}

int pve_net_bridge(struct pve_sandbox *b, const struct op *op, const struct nic_spec *nic,
	char **ret, struct err *e)
{
	if (nic->vnet_index != SPEC_NO_VNET)
		return str_dup(b->vnets[nic->vnet_index].id, ret, e);
	return find_existing(b, op, nic->vnet, ret, e);
}

int pve_net_reserve(struct pve_sandbox *b, const struct op *op, const struct pve_vm *vm,
	const struct nic_spec *nic, struct err *e)
{
	char ip[IPV4_TEXT_MAX], mac[MAC_TEXT_MAX];
	const struct pve_vnet *vnet;
	json_t *params;
	int rc;

	if (!nic->ipv4 || nic->vnet_index == SPEC_NO_VNET || !zone_has_dhcp(b))
		return 0;
	vnet = &b->vnets[nic->vnet_index];
	if (!vnet->spec->dhcp)
		return 0;
	ipv4_text(nic->ipv4, ip);
	mac_text(nic->mac, mac);
	for (char *c = mac; *c; c++)
		*c = (char)(*c >= 'a' && *c <= 'f' ? *c - 32 : *c);
	if (json_make(&params, e, "{s:s, s:s, s:s}", "zone", b->zone, "ip", ip, "mac", mac) < 0)
		return -1;
	/* With DHCP ranges the server gave the NIC an address when it was connected: PUT
	 * exchanges it for the one that the spec wants. Without ranges the NIC has no address to
	 * exchange: POST gives it one. */
	if (has_ranges(vnet)) {
		json_object_set_new(params, "vmid", json_integer(vm->vmid));
		rc = pve_do(b->api, op, "PUT", params, PVE_TWICE | PVE_PATIENT, NULL, e,
			"/cluster/sdn/vnets/%s/ips", vnet->id);
	} else {
		char path[64];

		snprintf(path, sizeof(path), "/cluster/sdn/vnets/%s/ips", vnet->id);
		rc = post_named(b, op, params, path, e);
	}
	return rc < 0 ? err_wrap(e, "address %s of VM %s", ip, vm->spec->name) : 0;
}
