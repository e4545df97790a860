/* parallel.h - calls a function for several VMs at once, each on a thread of its own. Any thread.
 */
#pragma once

#include <stddef.h>

#include "util/thread/op.h"

/* Calls one(arg, i, ...) for i below n. Returns when all have ended; the first failure ends the
 * others. */
int pve_parallel(const struct op *op, size_t n,
	int (*one)(void *arg, size_t i, const struct op *op, struct err *e), void *arg,
	struct err *e);
