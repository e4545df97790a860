/*
 * forward.h - ports of VMs on the host's loopback. One thread listens; one for each connection has
 * it connected inside and carries its bytes. For the process that holds a sandbox's network, and
 * for the daemon where the way to a VM is a driver's own.
 *
 * Thread contract: any thread, but for free, which is the owner's.
 */
#pragma once

#include <stdint.h>

#include "util/op.h"

enum { FORWARDS_MAX = 64 };

struct forward {
	unsigned vm; /* which VM, or what address: whatever the owner's connect wants to know */
	uint32_t addr;
	unsigned port, host_port;
};

struct forwards;

/* connect: a stream socket that leads to f, not blocking; the caller's. It is called on the
 * connection's own thread, with an op that has no deadline. */
int forwards_new(int (*connect)(void *arg, const struct op *op, const struct forward *f,
			 int *ret_fd, struct err *e),
	void *arg, struct forwards **ret, struct err *e);
/* Ends all connections. NULL is fine. */
void forwards_free(struct forwards *all);
/* f->host_port 0: any that is free; the one it became is returned. */
int forwards_add(
	struct forwards *all, const struct forward *f, unsigned *ret_host_port, struct err *e);
/* Connections that there are stay. */
int forwards_remove(struct forwards *all, unsigned host_port, struct err *e);
/* Their number; the oldest first. */
unsigned forwards_list(struct forwards *all, struct forward ret[static FORWARDS_MAX]);
