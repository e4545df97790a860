/* sweep.h - removes what carries our stamp and no journal knows; see `sweep` in driver.h. Any
 * thread. */
#pragma once

#include "driver/driver.h"

int pve_sweep(struct driver *base, const struct op *op, bool (*known)(void *arg, const char *id),
	void (*said)(void *arg, const char *what), void *arg, struct err *e);
