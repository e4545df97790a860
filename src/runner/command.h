/* command.h - the last steps of a new process before it becomes the command. */
#pragma once

#include "runner/supervise.h"

/* Reports why if it cannot. */
_Noreturn void command_run(const struct launch *l, int report_fd);
