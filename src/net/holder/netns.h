/* netns.h - entering namespaces. For the holder. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "util/err.h"

/*
 * Returns in a child that is process 1 of new user, pid and mount namespaces, with the rights over
 * networks that such a namespace gives, and without the host's files. The parent never returns: it
 * answers at *ret_outside (outside_main).
 */
int netns_leave_host(int *ret_outside, struct err *e);

/* Runs fn on a new thread in a network namespace. netns -1: in a new one, which *ret_netns is set
 * to. Programs that fn starts are in it too. */
int netns_run(
	int netns, int (*fn)(void *arg, struct err *e), void *arg, int *ret_netns, struct err *e);

/*
 * The holder's parent (outside.c). It stays where the host's files and networks are, and makes
 * sockets to the host's resolvers for the DNS server, which sees neither (net/dns/asks.h). It is no
 * longer root.
 */

/* Answers on the socket until the holder ends; then exits with its status. id: the holder's, which
 * it takes on, too: otherwise its death could not kill the holder. */
void outside_main(pid_t holder, int sock, uid_t id) __attribute__((noreturn));
