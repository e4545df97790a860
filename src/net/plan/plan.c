#include "net/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"

/* The DHCP range of "networks": "auto". */
static const struct dhcp_range auto_range = {0x0a4d000a, 0x0a4d00c8};
static const struct net_subnet auto_subnet = {
	.cidr = {0x0a4d0000, 24}, .ranges = &auto_range, .n_ranges = 1};

/* Subnets for the link to pasta: no machine has addresses in these. */
static const struct ipv4_net links[] = {
	{0xc0000000, 29}, /* 192.0.0.0/29, for translators such as this */
	{0xc6120000, 29}, /* 198.18.0.0/15, for measurements in laboratories */
	{0xc6130000, 29},
};

void net_plan_free(struct net_plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_vnets; i++)
		free(p->vnets[i].subnets);
	free(p->vnets);
	free(p->nics);
	free(p);
}

const struct net_nic *net_plan_nic(const struct net_plan *p, size_t vm, size_t nic)
{
	for (size_t i = 0; i < p->n_nics; i++)
		if (p->nics[i].vm == vm && p->nics[i].nic == nic)
			return &p->nics[i];
	return NULL;
}

size_t net_plan_vnet(const struct net_plan *p, const char *alias)
{
	for (size_t i = 0; i < p->n_vnets; i++)
		if (strcmp(p->vnets[i].spec->alias, alias) == 0)
			return i;
	return SIZE_MAX;
}

static bool mac_taken(const struct net_plan *p, struct mac_addr mac)
{
	const struct sandbox_spec *s = p->spec;

	for (size_t i = 0; i < s->n_vms; i++)
		for (size_t k = 0; k < s->vms[i].n_nics; k++)
			if (mac_equal(s->vms[i].nics[k].mac, mac))
				return true;
	for (size_t i = 0; i < p->n_nics; i++)
		if (mac_equal(p->nics[i].mac, mac))
			return true;
	for (size_t i = 0; i < p->n_vnets; i++)
		if (mac_equal(p->vnets[i].gate_mac, mac))
			return true;
	return false;
}

static struct mac_addr make_mac(const struct net_plan *p, uint64_t random)
{
	struct mac_addr mac;

	do { /* 02: locally administered */
		mac = (struct mac_addr){{0x02, (uint8_t)(random >> 32), (uint8_t)(random >> 24),
			(uint8_t)(random >> 16), (uint8_t)(random >> 8), (uint8_t)random}};
		random++;
	} while (mac_taken(p, mac));
	return mac;
}

static bool ipv4_taken(const struct net_plan *p, size_t vnet, uint32_t addr)
{
	const struct sandbox_spec *s = p->spec;

	for (size_t i = 0; i < s->n_vms; i++)
		for (size_t k = 0; k < s->vms[i].n_nics; k++)
			if (s->vms[i].nics[k].vnet_index == vnet && s->vms[i].nics[k].ipv4 == addr)
				return true;
	for (size_t i = 0; i < p->n_nics; i++)
		if (p->nics[i].vnet == vnet && p->nics[i].ipv4 == addr)
			return true;
	for (size_t i = 0; i < p->vnets[vnet].n_subnets; i++)
		if (p->vnets[vnet].subnets[i].server == addr)
			return true;
	return false;
}

static bool in_ranges(const struct net_subnet *sub, uint32_t addr)
{
	for (size_t i = 0; i < sub->n_ranges; i++)
		if (addr >= sub->ranges[i].start && addr <= sub->ranges[i].end)
			return true;
	return false;
}

/* The address from which moat serves DHCP. If the spec names no gateway, it is the last one that is
 * not taken: people give the first ones to their own machines. */
static uint32_t choose_server(const struct net_plan *p, size_t vnet, const struct net_subnet *sub)
{
	for (uint32_t a = ipv4_net_last(sub->cidr) - 1; a > sub->cidr.addr; a--)
		if (!in_ranges(sub, a) && !ipv4_taken(p, vnet, a))
			return a;
	return 0;
}

/* The first free address of the DHCP ranges. NICs get fixed addresses ahead, so that DNS knows
 * their names at once. */
static uint32_t choose_ipv4(const struct net_plan *p, size_t vnet)
{
	const struct net_vnet *v = &p->vnets[vnet];

	for (size_t i = 0; i < v->n_subnets; i++)
		for (size_t r = 0; r < v->subnets[i].n_ranges; r++) {
			const struct dhcp_range *range = &v->subnets[i].ranges[r];

			for (uint32_t a = range->start; a <= range->end; a++)
				if (!ipv4_taken(p, vnet, a))
					return a;
		}
	return 0;
}

static void plan_subnets(struct net_plan *p, size_t i)
{
	const struct vnet_spec *spec = &p->spec->networks.vnets[i];
	struct net_vnet *v = &p->vnets[i];
	size_t gateways = 0;

	for (size_t k = 0; k < v->n_subnets; k++) {
		struct net_subnet *sub = &v->subnets[k];

		if (!sub->server && spec->dhcp)
			sub->server = choose_server(p, i, sub);
		v->has_egress |= sub->snat && spec->egress.mode != SPEC_EGRESS_DENY;
		v->dhcp |= spec->dhcp && sub->server;
		gateways += sub->gateway;
	}
	v->dns = v->dhcp || v->has_egress;
	v->routed = gateways > 1;
	p->has_egress |= v->has_egress;
	p->routed |= v->routed;
}

static int plan_vnet(struct net_plan *p, size_t i, struct err *e)
{
	const struct vnet_spec *spec = &p->spec->networks.vnets[i];
	bool automatic = p->spec->networks.mode == SPEC_NET_AUTO;
	struct net_vnet *v = &p->vnets[i];

	v->spec = spec;
	snprintf(v->bridge, sizeof(v->bridge), "br%u", (unsigned)i % 1000);
	v->subnets = calloc(automatic ? 1 : spec->n_subnets + 1, sizeof(*v->subnets));
	if (!v->subnets)
		return err_oom(e);
	p->n_vnets = i + 1;
	if (automatic)
		v->subnets[v->n_subnets++] = auto_subnet;
	for (size_t k = 0; k < spec->n_subnets; k++)
		v->subnets[v->n_subnets++] = (struct net_subnet){.cidr = spec->subnets[k].cidr,
			.server = spec->subnets[k].gateway,
			.gateway = spec->subnets[k].gateway != 0,
			.snat = spec->subnets[k].snat,
			.ranges = spec->subnets[k].dhcp_ranges,
			.n_ranges = spec->subnets[k].n_dhcp_ranges};
	plan_subnets(p, i);
	snprintf(v->gate, sizeof(v->gate), "%.8s%s", v->bridge, v->has_egress ? "g" : "");
	if (v->has_egress)
		snprintf(v->cable, sizeof(v->cable), "%.8sc", v->bridge);
	return 0;
}

static void plan_nic(struct net_plan *p, size_t vm, size_t nic, uint64_t random)
{
	const struct nic_spec *spec = &p->spec->vms[vm].nics[nic];
	struct net_nic *n = &p->nics[p->n_nics];

	*n = (struct net_nic){.vm = vm,
		.nic = nic,
		.vnet = spec->vnet_index,
		.mac = spec->mac,
		.ipv4 = spec->ipv4,
		.vlan_tag = spec->vlan_tag};
	snprintf(n->tap, sizeof(n->tap), "t%u", (unsigned)p->n_nics % 100000);
	if (!mac_is_set(n->mac))
		n->mac = make_mac(p, random + p->n_nics);
	/* moat's port of the bridge is untagged, so a NIC behind a VLAN tag does not reach its
	 * DHCP. */
	if (!n->ipv4 && !n->vlan_tag && p->vnets[n->vnet].dhcp)
		n->ipv4 = choose_ipv4(p, n->vnet);
	snprintf(n->bridge, sizeof(n->bridge), "%s", p->vnets[n->vnet].bridge);
	p->n_nics++;
}

/* Notes the address of a vnet's router VM: NICs have theirs by now. */
static void plan_routers(struct net_plan *p)
{
	for (size_t i = 0; i < p->n_nics; i++) {
		const struct net_nic *n = &p->nics[i];
		struct net_vnet *v = &p->vnets[n->vnet];

		if (!v->spec->gateway_vm ||
			strcasecmp(v->spec->gateway_vm, p->spec->vms[n->vm].name) != 0)
			continue;
		for (size_t k = 0; k < v->n_subnets; k++)
			if (n->ipv4 && ipv4_net_has(v->subnets[k].cidr, n->ipv4))
				v->subnets[k].router = n->ipv4;
	}
}

/* A bridge must filter VLANs only if a NIC sees several of them, as every NIC without a vlan_tag
 * does. If all NICs have one, each VLAN gets a bridge of its own, which every kernel can make. */
static void plan_vlans(struct net_plan *p)
{
	for (size_t v = 0; v < p->n_vnets; v++) {
		bool tags = false, all = true;

		for (size_t i = 0; i < p->n_nics; i++)
			if (p->nics[i].vnet == v) {
				tags |= p->nics[i].vlan_tag != 0;
				all &= p->nics[i].vlan_tag != 0;
			}
		p->vnets[v].filter = tags && !all;
		p->filter |= p->vnets[v].filter;
		for (size_t i = 0; tags && all && i < p->n_nics; i++)
			if (p->nics[i].vnet == v) {
				p->nics[i].apart = true;
				snprintf(p->nics[i].bridge, NET_IF_MAX, "%.8sv%u",
					p->vnets[v].bridge, p->nics[i].vlan_tag % 10000);
			}
	}
}

static int choose_link(struct net_plan *p, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		bool free_one = true;

		for (size_t v = 0; v < p->n_vnets; v++)
			for (size_t k = 0; k < p->vnets[v].n_subnets; k++)
				free_one &=
					!ipv4_net_overlaps(links[i], p->vnets[v].subnets[k].cidr);
		if (!free_one)
			continue;
		p->link = links[i];
		p->link_gateway = links[i].addr + 1;
		p->link_address = links[i].addr + 2;
		return 0;
	}
	return spec_err(e, "networks.vnets",
		"the subnets take 192.0.0.0/29 and all of 198.18.0.0/15: nothing is left for "
		"egress");
}

int net_plan_make(
	const struct sandbox_spec *spec, uint64_t random, struct net_plan **ret, struct err *e)
{
	auto_net_plan struct net_plan *p = calloc(1, sizeof(*p));
	size_t n = 0;

	if (!p)
		return err_oom(e);
	p->spec = spec;
	for (size_t i = 0; i < spec->n_vms; i++)
		n += spec->vms[i].n_nics;
	p->vnets = calloc(spec->networks.n_vnets + 1, sizeof(*p->vnets));
	p->nics = calloc(n + 1, sizeof(*p->nics));
	if (!p->vnets || !p->nics)
		return err_oom(e);
	for (size_t i = 0; i < spec->networks.n_vnets; i++)
		if (plan_vnet(p, i, e) < 0)
			return -1;
	for (size_t i = 0; i < spec->n_vms; i++)
		for (size_t k = 0; k < spec->vms[i].n_nics; k++)
			plan_nic(p, i, k, random);
	for (size_t i = 0; i < p->n_vnets; i++)
		if (*p->vnets[i].cable)
			p->vnets[i].gate_mac = make_mac(p, random + p->n_nics + i);
	plan_routers(p);
	plan_vlans(p);
	if (choose_link(p, e) < 0)
		return -1;
	*ret = take_ptr(&p);
	return 0;
}
