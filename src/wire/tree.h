/*
 * tree.h - killing all processes that a command has started: whole process groups at a time, which
 * no fork bomb outruns, and without /proc/.../children, which some kernels lack. For
 * single-threaded processes: the guard, and the runner in the guest.
 */
#pragma once

#include <sys/types.h>

/* For a subreaper: SIGKILLs and reaps until no child is left. Returns the wait status of the child
 * `command`, or that of a SIGKILL if `command` is 0, because the caller reaped it before. */
int tree_end(pid_t command);

/* SIGKILLs the children of a process, each with its process group unless that is our own. */
void tree_kill_children(pid_t parent);

/* Kills all processes of a session. Less certain than tree_end, since a process can leave a
 * session: for a command whose subreaper was killed. */
void tree_kill_session(pid_t session);
