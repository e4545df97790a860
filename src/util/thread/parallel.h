/* parallel.h - calls a function for several things at once, each on a thread of its own, for work
 * that mostly waits. Any thread. */
#pragma once

#include <stddef.h>

#include "util/thread/op.h"

/* Calls one(arg, i, ...) for i below n, for at_once of them at a time (PARALLEL_MAX at most).
 * Returns when all have ended; the first failure ends the others. */
enum { PARALLEL_MAX = 16 };
int parallel_run(const struct op *op, unsigned at_once, size_t n,
	int (*one)(void *arg, size_t i, const struct op *op, struct err *e), void *arg,
	struct err *e);
