/*
 * state.h - what the Proxmox VE driver knows: sites, instances, pools and sandboxes. For the
 * driver's own files.
 *
 * How the driver works. A *site* is an API end point with a login (a server, or a cluster); an
 * *instance* is a node of a site with its storages and its pool, as users configure it. A sandbox
 * waits in its pool's queue for room on an instance (pool.c), gets its networks
 * (network/net.c), finds or makes the templates of its VMs (images/source.c), clones, configures
 * and starts them (vm/vm.c). All it makes is journaled before and stamped on the server
 * (site/entry.c), so that it can be removed (cleanup/reclaim.c) by a daemon that knows no more than
 * the journal and how to log in (site/access.c).
 *
 * Threads: any number of requests use one driver at a time. `mu` guards the lists, and in them what
 * site.h and sandbox.h say that it guards.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <jansson.h>

#include "driver/driver.h"
#include "util/thread/op.h"
#include "util/thread/lock.h"
#include "util/thread/turn.h"

#define PVE_NAME "proxmox"

struct pve_waiter; /* see pool.c */
struct pve_pool {
	struct pve_pool *next;
	char *id;
	struct pve_waiter *first;
	unsigned waiting;
};

struct pve_driver {
	struct driver base;
	const struct driver_env *env;
	char install[9];    /* part of every stamp: tells what is ours from what others made */
	char *access_path;  /* the file with the logins of sites that hold something of ours */
	struct turn saving; /* one thread at a time writes that file */

	struct lock mu;
	struct pve_site *sites;
	struct pve_inst *insts;
	struct pve_pool *pools;
	struct pve_sandbox *sandboxes;
	json_t *living; /* object: their ids */
	json_t *saved;  /* object: the logins in the file, by site; NULL: not known */

	/* The cleaner (cleanup/cleaner.h). */
	pthread_t cleaner;
	bool cleaner_runs;
	int cleaner_fd; /* eventfd: look now */
	struct op cleaner_op;
};

int pve_driver_new(const struct driver_env *env, struct pve_driver **ret, struct err *e);
/* Nobody may be using it, and the cleaner has been stopped. NULL is fine. */
void pve_driver_free(struct pve_driver *d);
