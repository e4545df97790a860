/*
 * forward.h - ports of the host's loopback that lead to VMs. One thread listens; another one for
 * each connection connects to the VM and carries the bytes. Used by the holder, and by the daemon
 * where a driver reaches its VMs itself.
 *
 * Thread contract: any thread; forwards_free is the owner's.
 */
#pragma once

#include <stdint.h>

#include "util/thread/op.h"

enum { FORWARDS_MAX = 64 };

struct forward {
	unsigned vm; /* for the owner's connect: it uses vm or addr */
	uint32_t addr;
	unsigned port, host_port;
};

struct forwards;

/* connect makes a connected, non-blocking stream socket, which the caller closes. It runs on the
 * connection's own thread, with an op that has no deadline. */
int forwards_new(int (*connect)(void *arg, const struct op *op, const struct forward *f,
			 int *ret_fd, struct err *e),
	void *arg, struct forwards **ret, struct err *e);
/* Ends all connections. NULL is fine. */
void forwards_free(struct forwards *all);
/* f->host_port 0: any free port. *ret_host_port is the port that is open now. */
int forwards_add(
	struct forwards *all, const struct forward *f, unsigned *ret_host_port, struct err *e);
/* Stops listening. Open connections stay. */
int forwards_remove(struct forwards *all, unsigned host_port, struct err *e);
/* Returns their number; the oldest comes first. */
unsigned forwards_list(struct forwards *all, struct forward ret[static FORWARDS_MAX]);
