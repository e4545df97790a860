/* group.h - the end of a process group whose leader was killed, and so could not wait for the
 * others. Any thread. */
#pragma once

#include <sys/types.h>

/* Waits until no process of the group is alive; for its leader, which the caller reaps, it does not
 * wait. All of them were killed before. After so many milliseconds it gives up. */
void group_wait(pid_t group, int milliseconds);
