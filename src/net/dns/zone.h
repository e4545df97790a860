/*
 * zone.h - what the DNS of one vnet answers: names of its VMs, and names outside as far as the
 * policy goes. Pure, apart from its log of refusals. For the holder's main thread.
 */
#pragma once

#include <jansson.h>
#include <time.h>

#include "net/dns-msg.h"
#include "spec/net-addr.h"

enum { ZONE_REFUSALS_MAX = 256 };

struct zone_name {
	const char *name; /* the plan's */
	uint32_t addr;
};

struct zone_refusal {
	char name[DNS_NAME_MAX];
	char why[40];
	unsigned count;
	time_t last;
};

/* An address that was opened, and until when: in seconds of now_ns. */
struct zone_open {
	uint32_t addr;
	int64_t until;
};

enum { ZONE_OPEN_MAX = 64 }; /* that are remembered */

struct zone {
	const char *vnet; /* the alias */
	const char *set;  /* nftables' set of opened addresses; NULL: nothing has to be opened */
	bool way_out, open;
	struct zone_name *names;
	size_t n_names;
	const char **domains;
	size_t n_domains;
	struct ipv4_net *cidrs;
	size_t n_cidrs;
	struct zone_refusal *refusals; /* a ring: the oldest goes first */
	unsigned n_refusals, next_refusal;
	unsigned long refused;                  /* in all */
	unsigned long forgotten;                /* of these, in favour of newer ones */
	struct zone_open opened[ZONE_OPEN_MAX]; /* a ring, too */
	unsigned next_opened;
};

/* From a member of the plan's "dns". The plan outlives the zone. */
int zone_load(struct zone *z, const json_t *j, struct err *e);
void zone_free(struct zone *z);

enum zone_verdict { ZONE_ANSWERED, ZONE_ASK_OUTSIDE };

/* Answers a query into *ret, or says that the outside has to be asked. */
int zone_answer(struct zone *z, struct bytes query, const struct dns_question *q,
	enum zone_verdict *ret_verdict, struct buf *ret, struct err *e);
/*
 * Whether the outside's answer may be told: not if it leads to the host (which hosts decides), to
 * an address that is never outside, or to a private network that the policy does not name.
 */
bool zone_accepts(const struct zone *z, const struct dns_answer *a,
	bool (*is_host)(void *arg, uint32_t addr), void *arg);
void zone_refuse(struct zone *z, const char *name, const char *why);
/*
 * Whether the address is known to be open until then. What is open need not be opened again for
 * each of the questions that a guest may ask as fast as it can.
 */
bool zone_is_open(const struct zone *z, uint32_t addr, int64_t until);
void zone_opened(struct zone *z, uint32_t addr, int64_t until);
/* The refusals as a list of objects. The last has no name, and counts what was forgotten. */
json_t *zone_refusals(const struct zone *z);
