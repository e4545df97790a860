/* qemu-net.h - a local box's network: whether there is one, and making it. */
#pragma once

#include "driver/driver.h"
#include "net/net.h"

/* *ret stays NULL where the box needs none, or can do with a user-mode network for its one NIC. */
int qemu_net_open(const struct driver_env *env, const struct op *op, const char *sandbox,
	const struct sandbox_spec *spec, uint64_t random, struct net **ret, struct err *e);
