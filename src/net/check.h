/*
 * check.h - whether this host can make networks, and what to do if not. `moat doctor` and a failed
 * `moat up` say the same words.
 */
#pragma once

#include "net/plan.h"
#include "util/op.h"

struct net_fault {
	const char *what; /* "nft", "tun", ... */
	char detail[256]; /* one sentence */
	const char *fix;  /* a command */
};

enum { NET_FAULTS_MAX = 8 };

struct net_needs {
	bool way_out; /* also what that needs */
	bool vlans;   /* bridges that filter by VLAN */
};

/* Fills faults with what is missing; the number of them. */
unsigned net_check(
	const struct op *op, struct net_needs needs, struct net_fault faults[NET_FAULTS_MAX]);
/* A network could not be made: if something is missing that explains it, e says so, with the fix.
 */
void net_check_explain(const struct op *op, const struct net_plan *p, struct err *e);
