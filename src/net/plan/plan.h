/*
 * plan.h - the plan of a sandbox's networks: every bridge, tap and address, worked out from the
 * spec before anything is made. Pure; a plan is not changed after net_plan_make, so any thread may
 * read it.
 */
#pragma once

#include "spec/spec.h"

#define NET_IF_MAX    16         /* IFNAMSIZ */
#define NET_EGRESS_IF "out"      /* pasta's interface, through which egress leaves */
#define NET_DOMAIN    "internal" /* domain of the VMs' names; reserved for private use */

struct net_subnet {
	struct ipv4_net cidr;
	uint32_t server; /* moat's own address in the subnet, for DHCP, DNS and as gateway; 0: none
			  */
	bool gateway;    /* DHCP announces server as the router */
	uint32_t router; /* a VM that it announces instead; 0: none */
	bool snat;
	const struct dhcp_range *ranges; /* borrowed from the spec, or static */
	size_t n_ranges;
};

struct net_vnet {
	const struct vnet_spec *spec;
	char bridge[NET_IF_MAX];
	char gate[NET_IF_MAX];  /* moat's own interface in the vnet, which has its addresses */
	char cable[NET_IF_MAX]; /* the bridge's end of the cable to the gate, which only a vnet with
				   egress has; otherwise it is empty, and the gate is the bridge */
	struct mac_addr gate_mac; /* set if there is a cable */
	struct net_subnet *subnets;
	size_t n_subnets;
	bool dhcp;       /* moat serves DHCP on it */
	bool dns;        /* moat serves DNS on it */
	bool has_egress; /* a subnet has snat and the policy is not "deny" */
	bool routed;     /* several subnets have a gateway: moat routes between them */
	bool filter; /* some NICs have a vlan_tag and some have none: the bridge must filter VLANs
		      */
};

struct net_nic {
	size_t vm, nic, vnet; /* indices */
	char tap[NET_IF_MAX];
	struct mac_addr mac;
	uint32_t ipv4; /* the address that DHCP gives it; 0: none, or any free one */
	unsigned vlan_tag;
	char bridge[NET_IF_MAX]; /* the vnet's, or a bridge of its own for all NICs with that
				    vlan_tag */
	bool apart;              /* on a bridge of its own */
};

struct net_plan {
	const struct sandbox_spec *spec;
	struct net_vnet *vnets;
	size_t n_vnets;
	struct net_nic *nics; /* in the order of the VMs and of their NICs */
	size_t n_nics;
	bool has_egress, routed; /* whether any vnet has it */
	bool filter;
	bool no_captures;     /* leave out the vnets' captures */
	struct ipv4_net link; /* the subnet between the sandbox's network namespace and pasta */
	uint32_t link_address, link_gateway; /* our end, and pasta's */
};

/* MACs of NICs that the spec gives none are made of `random`. The spec must outlive the plan. */
int net_plan_make(
	const struct sandbox_spec *spec, uint64_t random, struct net_plan **ret, struct err *e);
void net_plan_free(struct net_plan *p); /* NULL is fine */
static inline void auto_net_planp(struct net_plan **p)
{
	net_plan_free(*p);
}
#define auto_net_plan __attribute__((cleanup(auto_net_planp)))

/* NULL: the VM has no such NIC. */
const struct net_nic *net_plan_nic(const struct net_plan *p, size_t vm, size_t nic);
/* SIZE_MAX: no vnet has that alias. */
size_t net_plan_vnet(const struct net_plan *p, const char *alias);
