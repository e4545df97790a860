/* supervisor.h - the process that watches over commands, one at a time; see supervise.h. */
#pragma once

#include "runner/job.h"

/* Remembers the limits that commands are to have, before the runner changes its own. */
void supervisor_keep_limits(void);

/* What a newly forked process does from now on. orders, input: sockets from the runner; told: the
 * eventfd. */
_Noreturn void supervisor_live(int orders, int input, int told, struct job *job);

/* Closes every fd from the first to the last; FD_LAST: there is no last. */
#define FD_LAST (~0U)
void close_fds(unsigned first, unsigned last);
