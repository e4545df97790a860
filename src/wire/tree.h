/*
 * tree.h - ending everything that a command has started: whole process groups at a time, which no
 * fork bomb outruns, and also where the kernel has no /proc/.../children. For single-threaded
 * processes: the guard, and the runner in the guest.
 */
#pragma once

#include <sys/types.h>

/*
 * For a subreaper: SIGKILLs and reaps until no child is left. Returns the wait status of the child
 * `command`, or that of a SIGKILL if it is 0, which says that it was reaped before.
 */
int tree_end(pid_t command);

/* For lack of anything better, when the subreaper was killed: what is still in that session. */
void tree_kill_session(pid_t session);
