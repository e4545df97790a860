/* command.h - a process that waits until it may go, and then becomes the command. */
#pragma once

#include <sys/types.h>

#include "runner/job.h"

struct command {
	struct job *job;
	pid_t supervisor; /* its parent, without which it must not run */
	unsigned place;   /* in which it waits */
	int input;        /* a socket, over which comes its stdin */
	int out, err;
	struct user joined; /* whose groups it has */
};

/*
 * Everything that does not depend on what the command is happens while it waits: session, stdout,
 * stderr. Its stdin, if it is to have another than the supervisor's, or its terminal, comes when it
 * goes.
 *
 * Writes into the job why, if it fails. May run in its parent's memory: it allocates nothing and
 * leaves everything but the job and its stack alone. Wants all signals blocked, so that one sent
 * too early is there when the command is.
 */
_Noreturn void command_run(const struct command *c);
