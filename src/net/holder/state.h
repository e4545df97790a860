/* state.h - struct holder, the data of a holder process. Only types. For its main thread. */
#pragma once

#include <jansson.h>

#include "net/dns/zone.h"
#include "net/holder/child.h"
#include "net/holder/forward.h"
#include "net/holder/hostaddr.h"

enum { HOLDER_CHILDREN_MAX = 72, HOLDER_OUTPUT_MAX = 400 };

struct lease_file {
	const char *gate; /* borrowed from the plan */
	int fd;
};

/* What the holder has of the process that answers guests' DNS. */
struct holder_dns {
	struct zone *zones; /* their policy; no names are answered here */
	unsigned n_zones;
	int fd; /* a socket to the process; -1: there is none */
	unsigned child;
	const struct refusals *record; /* of each zone; the process writes it */
};

struct holder {
	json_t *plan;
	const char *stamp; /* what the holder's own name in lists of processes ends with */
	int netns;
	int outside; /* a socket to the process that stayed outside; the DNS server uses it */
	int log[2];  /* pipe: the children's stdout and stderr */
	char last_output[HOLDER_OUTPUT_MAX]; /* end of the children's output, for messages */
	struct child children[HOLDER_CHILDREN_MAX];
	unsigned n_children;
	int pasta;             /* index in children; -1: the sandbox has no egress */
	struct hostaddr hosts; /* fd -1: not watched, as there is no egress */
	int nftables;          /* netlink, in netns; -1: the sandbox has no egress */
	struct holder_dns dns;
	struct forwards *forwards;
	struct lease_file leases[HOLDER_CHILDREN_MAX];
	unsigned n_leases;
};
