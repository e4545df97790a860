/* check.h - whether this host can make networks, and what to do if not. `moat doctor` and a failed
 * `moat up` use the same texts. Any thread. */
#pragma once

#include "net/plan/plan.h"
#include "util/thread/op.h"

struct net_fault {
	const char *what; /* "nft", "tun", ... */
	char detail[256]; /* a sentence for users */
	const char *fix;  /* a command that repairs it */
};

enum { NET_FAULTS_MAX = 8 };

struct net_needs {
	bool has_egress; /* check what egress needs, too */
	bool vlans;      /* check bridges that filter by VLAN, too */
};

/* Fills faults with what is missing; returns their number. */
unsigned net_check(
	const struct op *op, struct net_needs needs, struct net_fault faults[NET_FAULTS_MAX]);
/* For an error from making a network: if something is missing that explains it, e says so, with the
 * fix. */
void net_check_explain(const struct op *op, const struct net_plan *p, struct err *e);
