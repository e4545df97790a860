/*
 * script.h - a plan as the texts that `ip`, `bridge`, `nft` and dnsmasq read. Pure: nothing of the
 * host gets in, and nothing of the spec but numbers and host names, whose characters were checked.
 */
#pragma once

#include "net/plan.h"
#include "util/buf.h"

/* For `ip -batch -`: bridges, taps and addresses, all up. */
int net_script_links(const struct net_plan *p, struct buf *ret, struct err *e);
/* For `bridge -batch -`: who belongs to which VLAN; empty if nobody does. */
int net_script_vlans(const struct net_plan *p, struct buf *ret, struct err *e);
/* For `nft -f -`: what may pass. The set "host" is empty; hostaddr.h fills it. */
int net_script_rules(const struct net_plan *p, struct buf *ret, struct err *e);
/* For nft as well, where the kernel has rules for ARP (CONFIG_NF_TABLES_ARP): how many neighbours
 * it may learn of. */
int net_script_arp(const struct net_plan *p, struct buf *ret, struct err *e);
/* dnsmasq's configuration for a vnet with dhcp. */
int net_script_dhcp(const struct net_plan *p, size_t vnet, struct buf *ret, struct err *e);

#define NET_RULES_TABLE "inet moat"
/* The set of addresses that were opened because a name of that vnet led to them. */
#define NET_RULES_DNS_SET "dns%zu"
