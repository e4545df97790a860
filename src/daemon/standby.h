/*
 * standby.h - sandboxes in standby, as seen by those who want one, or the memory of one. What keeps
 * them is in ops/standby.c. Any thread.
 */
#pragma once

#include "daemon/daemon.h"

/* Hands over a sandbox of that spec if one is ready. 1: *ret is as in sandbox_make. 0: there is
 * none, it has to be made. */
int standby_take(struct daemon *d, const struct sandbox_spec *spec, struct sandbox_taker *by,
	bool detach, json_t **ret, struct err *e);
/* Removes a sandbox that is only in standby; false: there is none. For admission_on_shortage; arg
 * is the daemon. */
bool standby_give_way(void *arg);
