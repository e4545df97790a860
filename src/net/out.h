/* out.h - the way out of a sandbox: pasta, what it may never lead to, what is opened for a name.
 * For the holder's main thread. */
#pragma once

#include "net/holder-state.h"

/* Nothing if the plan has no way out. The host's addresses are barred before pasta starts. */
int out_start(struct holder *h, struct err *e);
/* pasta has ended and was started again: its interface has to be set up anew. */
int out_restarted(struct holder *h, struct err *e);
/* The host's addresses may have changed. */
int out_follow_host(struct holder *h, struct err *e);
/* Opens addresses for so many seconds. */
int out_open(struct holder *h, const char *set, const uint32_t *addrs, unsigned n, uint32_t seconds,
	struct err *e);
