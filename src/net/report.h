/*
 * report.h - what clients are told of a running network: its plan, and what its holder says of it.
 * Pure. The holder passes on what dnsmasq and nft say, and guests have a part in that: in dnsmasq's
 * leases are words of theirs. Nothing is taken for granted here.
 */
#pragma once

#include <jansson.h>

#include "net/plan/plan.h"

/* said: the holder's answer to "show". *ret is as net_show's. */
int report_make(const struct net_plan *p, const json_t *said, json_t **ret, struct err *e);
/* The address that a NIC has by DHCP, in the host's byte order; 0: none. leases: the text of each
 * vnet's leases by its gate, from the holder. */
uint32_t report_lease(const struct net_plan *p, const json_t *leases, const struct net_nic *n);
/* One entry of "forwards". NULL: out of memory. */
json_t *report_forward(
	const struct net_plan *p, const char *address, json_int_t port, json_int_t host_port);
