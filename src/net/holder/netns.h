/* netns.h - entering namespaces. For the holder. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "util/err.h"

/*
 * Returns in a child that is process 1 of new user and pid namespaces, with all rights in them. The
 * parent waits for the child and never returns. *ret_nobody: the user nobody exists in there, so
 * programs can run as nobody.
 */
int netns_leave_host(bool *ret_nobody, struct err *e);

/* Runs fn on a new thread in a network namespace. netns -1: in a new one, which *ret_netns is set
 * to. Programs that fn starts are in it too. */
int netns_run(
	int netns, int (*fn)(void *arg, struct err *e), void *arg, int *ret_netns, struct err *e);
