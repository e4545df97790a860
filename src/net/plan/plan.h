/*
 * plan.h - what a sandbox's network consists of: every bridge, tap and address, worked out from the
 * spec before anything is made. Pure; never changed after net_plan_make, so any thread may read
 * one.
 */
#pragma once

#include "spec/spec.h"

#define NET_IF_MAX 16         /* IFNAMSIZ */
#define NET_OUT_IF "out"      /* the interface that leads outside */
#define NET_DOMAIN "internal" /* of the VMs' names; reserved for private use */

struct net_subnet {
	struct ipv4_net cidr;
	uint32_t server; /* moat's own address in it, for DHCP, DNS and as gateway; 0: none */
	bool gateway;    /* DHCP announces server as the router */
	bool snat;
	const struct dhcp_range *ranges; /* the spec's, or of static storage */
	size_t n_ranges;
};

struct net_vnet {
	const struct vnet_spec *spec;
	char bridge[NET_IF_MAX];
	struct net_subnet *subnets;
	size_t n_subnets;
	bool dhcp;    /* somebody answers DHCP */
	bool dns;     /* somebody answers DNS */
	bool way_out; /* a subnet has snat and the policy is not "deny" */
	bool routed;  /* several subnets have a gateway: moat leads from one to the other */
	bool filter;  /* some NICs have a vlan_tag and some see all: the bridge must tell VLANs */
};

struct net_nic {
	size_t vm, nic, vnet; /* indices */
	char tap[NET_IF_MAX];
	struct mac_addr mac;
	uint32_t ipv4; /* what DHCP will give it; 0: none, or whatever is free */
	unsigned vlan_tag;
	char bridge[NET_IF_MAX]; /* the vnet's, or one of its own for all that have that tag */
	bool apart;              /* the latter */
};

struct net_plan {
	const struct sandbox_spec *spec;
	struct net_vnet *vnets;
	size_t n_vnets;
	struct net_nic *nics; /* in the order of the VMs and of their NICs */
	size_t n_nics;
	bool way_out, routed; /* of any vnet */
	bool filter;
	bool unrecorded;           /* the vnets' captures are left out */
	struct ipv4_net link;      /* between us and the process that leads outside */
	uint32_t link_us, link_it; /* both ends of that */
};

/* random: where MACs of NICs that have none come from. The spec must outlive the plan. */
int net_plan_make(
	const struct sandbox_spec *spec, uint64_t random, struct net_plan **ret, struct err *e);
void net_plan_free(struct net_plan *p); /* NULL is fine */
static inline void auto_net_planp(struct net_plan **p)
{
	net_plan_free(*p);
}
#define auto_net_plan __attribute__((cleanup(auto_net_planp)))

/* NULL: that VM has no such NIC. */
const struct net_nic *net_plan_nic(const struct net_plan *p, size_t vm, size_t nic);
/* SIZE_MAX: no vnet has that alias. */
size_t net_plan_vnet(const struct net_plan *p, const char *alias);
