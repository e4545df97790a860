/* runners.h - the programs moat-guest that are installed with moat, one for each architecture of
 * guests. Found before the first thread starts; then for any thread. */
#pragma once

#include "util/err.h"

enum { RUNNERS = 2 };

struct runners {
	char *path[RUNNERS]; /* NULL: not installed */
	char *init[RUNNERS]; /* process 1 of VMs that are made of container images; likewise */
};

/* What `uname -m` says in guests, and the Debian packages that building the runner for them needs;
 * both in the order of runners.path. */
extern const char *const runner_arch[RUNNERS], *const runner_packages[RUNNERS];

void runners_find(struct runners *ret);
void runners_free(struct runners *r);

/* The path of the runner for a guest in which `uname -m` says arch, whatever that is. NULL with
 * ERR_UNSUPPORTED: there is none, and e says how to get it. */
const char *runners_for(const struct runners *r, const char *arch, struct err *e);
/* The path of such an init; NULL with ERR_UNSUPPORTED. */
const char *runners_init(const struct runners *r, const char *arch, struct err *e);
/* Fills e as runners_for does where there is none. Returns -1. */
int runners_lack(const char *arch, struct err *e);
