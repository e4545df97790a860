/* record.h - captures for the whole life of a sandbox, into files that the daemon opened. */
#pragma once

#include "net/holder-state.h"

/* Starts a thread for each vnet of the plan that has one; they end with the holder. */
int record_start(struct holder *h, struct err *e);
