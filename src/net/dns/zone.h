/* zone.h - what moat's DNS server answers on one vnet: names of its VMs, and outside names that the
 * egress policy allows. Pure, apart from its record of refusals. Not thread-safe. */
#pragma once

#include <jansson.h>

#include "net/dns/refusals.h"
#include "spec/net-addr.h"

struct zone_name {
	const char *name; /* borrowed from the plan */
	uint32_t addr;
};

/* An address that was opened, and until when (seconds of now_ns). */
struct zone_open {
	uint32_t addr;
	int64_t until;
};

enum { ZONE_OPEN_MAX = 64 }; /* addresses that a zone remembers */

struct zone {
	const char *vnet; /* the vnet's alias */
	const char *set;  /* nftables' set of opened addresses; NULL: no address has to be opened */
	bool has_egress, open;
	struct zone_name *names;
	size_t n_names;
	const char **domains;
	size_t n_domains;
	struct ipv4_net *cidrs;
	size_t n_cidrs;
	struct refusals *refusals;              /* the caller's; for zone_answer */
	struct zone_open opened[ZONE_OPEN_MAX]; /* a ring: a new one replaces the oldest */
	unsigned next_opened;
};

/* Loads a member of the plan's "dns". The plan must outlive the zone. */
int zone_load(struct zone *z, const json_t *j, struct err *e);
void zone_free(struct zone *z);
/* Loads the plan's "dns"; what this allocates is never freed. */
int zones_load(const json_t *list, struct zone **ret, unsigned *ret_n, struct err *e);

enum zone_verdict { ZONE_ANSWERED, ZONE_ASK_UPSTREAM };

/* Answers a question into *ret, or says that an upstream server must be asked. That is so only for
 * host names and for types that are on a list of ordinary ones. */
int zone_answer(struct zone *z, const struct dns_question *q, enum zone_verdict *ret_verdict,
	struct buf *ret, struct err *e);
/* Whether the guest may get an upstream server's answer with these addresses. Not if one is the
 * host's (is_host decides), is never outside, or is in a private network that the policy does not
 * name. */
bool zone_accepts(const struct zone *z, const uint32_t *addrs, unsigned n,
	bool (*is_host)(void *arg, uint32_t addr), void *arg);
/* Whether the address is known to be open until then, so that it need not be opened again: a guest
 * can ask very often. */
bool zone_is_open(const struct zone *z, uint32_t addr, int64_t until);
void zone_opened(struct zone *z, uint32_t addr, int64_t until);
