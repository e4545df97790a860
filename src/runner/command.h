/* command.h - the last steps of a new process before it becomes the command. */
#pragma once

#include "runner/supervise.h"

/* Its fds 0 to 2 are in place. Reports its pid, and why if it cannot. Runs in its parent's memory
 * (vfork): changes nothing there that the parent still needs. */
_Noreturn void command_run(const struct launch *l, int report_fd);
