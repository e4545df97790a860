/*
 * forward.h - ports of VMs on the host's loopback. The holder listens there and connects inside; a
 * thread carries the bytes of each connection. For the holder's main thread.
 */
#pragma once

#include <poll.h>

#include "net/holder-state.h"

enum { FORWARDS_MAX = 64 };

struct forward {
	int fd; /* listens */
	int netns;
	uint32_t addr;
	unsigned port, host_port;
};

struct forwards {
	struct forward list[FORWARDS_MAX];
	unsigned n;
};

/* host_port 0: any that is free; the one it became is returned. */
int forward_add(struct forwards *all, int netns, uint32_t addr, unsigned port, unsigned host_port,
	unsigned *ret_port, struct err *e);
int forward_remove(struct forwards *all, unsigned host_port, struct err *e);
/* Somebody is at the door. */
void forward_accept(const struct forward *f);
