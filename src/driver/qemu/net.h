/* net.h - decides whether a local sandbox has a network, and makes it. By the sandbox's owner. */
#pragma once

#include "driver/driver.h"
#include "net/net.h"

enum { QEMU_LACK_MAX = 500 };

/* *ret stays NULL where the sandbox needs no network, or can do with a user-mode network for its
 * one NIC: then lack says what it misses, and why. */
int qemu_net_open(const struct driver_env *env, const struct op *op, const char *sandbox,
	const struct sandbox_spec *spec, uint64_t random, char lack[static QEMU_LACK_MAX],
	struct net **ret, struct err *e);
