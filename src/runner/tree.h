/*
 * tree.h - ending everything that a command has started. Unlike util/killtree.h this also works
 * where the kernel has no /proc/.../children, tells how the command itself ended, and kills whole
 * process groups at a time, which no fork bomb outruns.
 */
#pragma once

#include <sys/types.h>

/*
 * For a subreaper whose descendants all live in sessions of their own: SIGKILLs and reaps until no
 * child is left. Returns the wait status of the child `command`, or that of a SIGKILL if it was
 * reaped before.
 */
int tree_end(pid_t command);

/* For lack of anything better, when the subreaper was killed: what is still in that session. */
void tree_kill_session(pid_t session);
