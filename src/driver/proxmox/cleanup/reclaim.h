/* reclaim.h - removes what a journal entry names; see `reclaim` in driver.h. Any thread. */
#pragma once

#include "driver/driver.h"

int pve_reclaim(
	struct driver *base, const struct op *op, const struct journal_entry *t, struct err *e);
