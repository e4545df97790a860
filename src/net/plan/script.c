#include "net/plan/script.h"

#include <string.h>

#include "util/auto.h"

#define ADDR(a) ipv4_text(a, (char[IPV4_TEXT_MAX]){0})
#define NET(n)  ipv4_net_text(n, (char[NET_TEXT_MAX]){0})
#define MAC(m)  mac_text(m, (char[MAC_TEXT_MAX]){0})

/* No spanning tree, no multicast snooping: a plain switch, which learns addresses and floods the
 * rest. It learns none from frames to the switch itself: these pass no rule (switch-rules.h). */
static int add_switch(const char *name, bool filter, struct buf *b, struct err *e)
{
	return buf_printf(b, e,
		"link add %s type bridge stp_state 0 mcast_snooping 0 no_linklocal_learn 1 "
		"forward_delay 0%s\n",
		name, filter ? " vlan_filtering 1" : "");
}

static int add_bridge(const struct net_vnet *v, struct buf *b, struct err *e)
{
	if (add_switch(v->bridge, v->filter, b, e) < 0)
		return -1;
	if (*v->cable && buf_printf(b, e,
				 "link add %s address %s up type veth peer name %s\n"
				 "link set %s master %s up\n",
				 v->gate, MAC(v->gate_mac), v->cable, v->cable, v->bridge) < 0)
		return -1;
	for (size_t i = 0; i < v->n_subnets; i++)
		if (v->subnets[i].server &&
			buf_printf(b, e, "addr add %s/%u broadcast + dev %s\n",
				ADDR(v->subnets[i].server), v->subnets[i].cidr.prefix, v->gate) < 0)
			return -1;
	return buf_printf(b, e, "link set %s up\n", v->bridge);
}

/* Adds a VLAN's own bridge, when it reaches the VLAN's first NIC. */
static int add_apart(const struct net_plan *p, size_t nic, struct buf *b, struct err *e)
{
	const char *name = p->nics[nic].bridge;

	for (size_t i = 0; i < nic; i++)
		if (strcmp(p->nics[i].bridge, name) == 0)
			return 0;
	return add_switch(name, false, b, e) < 0 ? -1 : buf_printf(b, e, "link set %s up\n", name);
}

int net_script_links(const struct net_plan *p, struct buf *ret, struct err *e)
{
	if (buf_add_str(ret, "link set lo up\n", e) < 0)
		return -1;
	for (size_t i = 0; i < p->n_vnets; i++)
		if (add_bridge(&p->vnets[i], ret, e) < 0)
			return -1;
	for (size_t i = 0; i < p->n_nics; i++)
		if ((p->nics[i].apart && add_apart(p, i, ret, e) < 0) ||
			buf_printf(ret, e,
				"tuntap add %s mode tap vnet_hdr\nlink set %s master %s up\n",
				p->nics[i].tap, p->nics[i].tap, p->nics[i].bridge) < 0)
			return -1;
	return 0;
}

int net_script_vlans(const struct net_plan *p, struct buf *ret, struct err *e)
{
	for (size_t i = 0; i < p->n_nics; i++) {
		const struct net_nic *n = &p->nics[i];

		if (!p->vnets[n->vnet].filter)
			continue;
		if (n->vlan_tag ? buf_printf(ret, e,
					  "vlan del dev %s vid 1\nvlan add dev %s vid %u pvid "
					  "untagged\n",
					  n->tap, n->tap, n->vlan_tag) < 0
				: buf_printf(ret, e, "vlan add dev %s vid 2-4094\n", n->tap) < 0)
			return -1;
	}
	return 0;
}

static int add_range(const struct net_subnet *sub, size_t tag, struct buf *b, struct err *e)
{
	const char *mask = ADDR(ipv4_mask(sub->cidr.prefix));
	uint32_t router;

	for (size_t i = 0; i < sub->n_ranges; i++)
		if (buf_printf(b, e, "dhcp-range=set:s%zu,%s,%s,%s,12h\n", tag,
			    ADDR(sub->ranges[i].start), ADDR(sub->ranges[i].end), mask) < 0)
			return -1;
	/* Without a range, only NICs with a reserved address get one. */
	if (!sub->n_ranges && buf_printf(b, e, "dhcp-range=set:s%zu,%s,static,%s,12h\n", tag,
				      ADDR(sub->cidr.addr), mask) < 0)
		return -1;
	/* dnsmasq does not send an option that has no value. */
	router = sub->router ? sub->router : sub->gateway ? sub->server : 0;
	if (buf_printf(b, e, "dhcp-option=tag:s%zu,option:router%s%s\n", tag, router ? "," : "",
		    router ? ADDR(router) : "") < 0)
		return -1;
	return buf_printf(
		b, e, "dhcp-option=tag:s%zu,option:dns-server,%s\n", tag, ADDR(sub->server));
}

int net_script_dhcp(const struct net_plan *p, size_t vnet, struct buf *ret, struct err *e)
{
	const struct net_vnet *v = &p->vnets[vnet];

	/* Answer by broadcast: otherwise dnsmasq enters each offered address into the table of
	 * neighbours. */
	if (buf_printf(ret, e,
		    "port=0\ninterface=%s\nexcept-interface=lo\nbind-interfaces\nno-ping\n"
		    "dhcp-authoritative\ndhcp-ignore-names\ndhcp-lease-max=10000\n"
		    "dhcp-broadcast\n"
		    "domain=" NET_DOMAIN "\n",
		    v->gate) < 0)
		return -1;
	for (size_t i = 0; i < v->n_subnets; i++)
		if (v->subnets[i].server && add_range(&v->subnets[i], i, ret, e) < 0)
			return -1;
	for (size_t i = 0; i < p->n_nics; i++) {
		const struct net_nic *n = &p->nics[i];

		if (n->vnet == vnet && n->ipv4 &&
			buf_printf(ret, e, "dhcp-host=%s,%s,%s\n", MAC(n->mac), ADDR(n->ipv4),
				p->spec->vms[n->vm].name) < 0)
			return -1;
	}
	return 0;
}
