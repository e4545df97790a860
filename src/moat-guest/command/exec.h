/*
 * exec.h - a command from the loop's side: from its EXEC frame to its answer (WIRE_EXIT).
 *
 * How a command starts, in five files:
 *	serve/dispatch.c      the frame comes in
 *	command/exec.c        makes a job and pipes or a terminal, and answers when all is over
 *	command/prepare.c     makes argv and environment of the frame
 *	command/supervisor.c  forks a supervisor, which forks the command and waits for its end
 *	command/command.c     in the new process: user, directory, signals, execve(2)
 * Meanwhile output.c moves what the command writes, and input.c what it reads.
 */
#pragma once

#include "moat-guest/command/input.h"
#include "moat-guest/command/supervisor.h"
#include "moat-guest/common/ring.h"

struct stream {
	struct watch watch; /* our end of the pipe; first, so that a watch gives its stream */
	int theirs;         /* the command's end of the pipe; held so that nobody is woken when the
			     * command closes its own: the supervisor tells of its end */
	struct exec *exec;
	uint8_t number; /* enum wire_stream */
	bool ready;     /* there was something to read */
	size_t drain;   /* after the end: how much of what was in the pipe then is left */
	uint64_t total;
	struct ring tail;
};

struct exec {
	struct job job;
	struct command *command;
	struct watch supervisor; /* its socket */
	pid_t supervisor_pid;
	bool ended;
	struct report report;
	struct stream out[2];
	struct input in;
	bool capture, tty, spill;
	char *spilled; /* where the output went, if it did */
	bool cancelled, timed_out, killing;
};

/* Starts what an EXEC frame asks for, or answers why not. False: the frame makes no sense. */
bool exec_start(struct runner *r, const struct wire_msg *m, const struct frame *f);
