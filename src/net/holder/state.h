/* state.h - struct holder, the data of a holder process. Only types. For its main thread. */
#pragma once

#include <jansson.h>

#include "net/holder/child.h"
#include "net/holder/forward.h"
#include "net/holder/hostaddr.h"

enum { HOLDER_CHILDREN_MAX = 72, HOLDER_OUTPUT_MAX = 400 };

struct lease_file {
	const char *gate; /* borrowed from the plan */
	int fd;
};

struct holder {
	json_t *plan;
	int netns;
	int outside;   /* a socket to the process that sees the host's files */
	char self[40]; /* "/proc/N": the holder's programs open its files below this path */
	int log[2];    /* pipe: the children's stdout and stderr */
	char last_output[HOLDER_OUTPUT_MAX]; /* end of the children's output, for messages */
	struct child children[HOLDER_CHILDREN_MAX];
	unsigned n_children;
	int pasta;             /* index in children; -1: the sandbox has no egress */
	struct hostaddr hosts; /* fd -1: not watched, as there is no egress */
	int nftables;          /* netlink, in netns; -1: the sandbox has no egress */
	struct dns *dns;
	struct forwards *forwards;
	struct lease_file leases[HOLDER_CHILDREN_MAX];
	unsigned n_leases;
};
