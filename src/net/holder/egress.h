/* out.h - the way out of a sandbox: pasta, what it may never lead to, what is opened for a name.
 * For the holder's main thread. */
#pragma once

#include "net/holder-state.h"

/*
 * All three do nothing if the plan has no way out. First the host's addresses are looked up, for
 * the rules that bar them; when those are in force pasta is started, which takes its time; and at
 * the end its interface is set up, and again whenever pasta was started again.
 */
int out_look(struct holder *h, struct err *e);
int out_start(struct holder *h, struct err *e);
int out_set_up(struct holder *h, struct err *e);
/* The host's addresses may have changed. */
int out_follow_host(struct holder *h, struct err *e);
/* Opens addresses for so many seconds. */
int out_open(struct holder *h, const char *set, const uint32_t *addrs, unsigned n, uint32_t seconds,
	struct err *e);
