/*
 * nftables.h - the packet rules of a plan as text for `nft -f -`. Pure: nothing of the host gets
 * in, and nothing of the spec but numbers and host names, whose characters were checked.
 */
#pragma once

#include "net/plan/plan.h"
#include "util/buf.h"

#define NFTABLES_TABLE_NAME "moat"
#define NFTABLES_TABLE      "inet " NFTABLES_TABLE_NAME
/* The set of a vnet's opened addresses: names that its policy allows have led to them. */
#define NFTABLES_DNS_SET "dns%zu"

/* What may pass, egress included. The set "host" is empty; hostaddr.h fills it. */
int nftables_rules(const struct net_plan *p, struct buf *ret, struct err *e);
/* Rules for ARP, which bound how many neighbours the kernel learns of. A text of its own, because
 * some kernels have no such rules (CONFIG_NF_TABLES_ARP). */
int nftables_arp_rules(const struct net_plan *p, struct buf *ret, struct err *e);
