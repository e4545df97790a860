/* netns.h - being in namespaces. For the holder. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "util/err.h"

/*
 * Becomes a child that is process 1 of new user and pid namespaces, with all rights in them; the
 * parent waits for it and never returns. *ret_nobody: there is a second user, nobody, to become.
 */
int netns_leave_host(bool *ret_nobody, struct err *e);

/* Runs fn on a thread of its own inside a network namespace: a new one when netns is -1, and then
 * *ret_netns is set. What fn starts is inside as well. */
int netns_run(
	int netns, int (*fn)(void *arg, struct err *e), void *arg, int *ret_netns, struct err *e);
