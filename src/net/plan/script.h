/*
 * script.h - a plan as text for `ip`, `bridge` and dnsmasq; nftables.h has its packet rules. Pure:
 * nothing of the host gets in, and nothing of the spec but numbers and host names, whose characters
 * were checked.
 */
#pragma once

#include "net/plan/plan.h"
#include "util/buf.h"

/* For `ip -batch -`: bridges, taps and addresses, all up. */
int net_script_links(const struct net_plan *p, struct buf *ret, struct err *e);
/* For `bridge -batch -`: the VLANs of each port; empty if there are none. */
int net_script_vlans(const struct net_plan *p, struct buf *ret, struct err *e);
/* dnsmasq's configuration for a vnet with dhcp. */
int net_script_dhcp(const struct net_plan *p, size_t vnet, struct buf *ret, struct err *e);
