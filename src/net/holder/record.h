/* record.h - writes the captures of a spec, for the whole life of a sandbox, into files that the
 * daemon opened. For the holder's main thread. */
#pragma once

#include "net/holder/state.h"

/* Starts a thread for each vnet with a capture; the threads end with the holder. */
int record_start(struct holder *h, struct err *e);
