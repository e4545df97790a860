/*
 * supervisor.h - the process above one command: what the runner does with it, and its own life.
 *
 * A supervisor is a child of the runner, and the command is a child of the supervisor. The
 * supervisor is a child subreaper: every process that the command starts stays below it, even one
 * that has left the session or lost its parent. So a timeout can end all of them. When the command
 * ends by itself, the supervisor reports. If the command has left background processes, the
 * supervisor ends then, and they become children of init. Otherwise it can be used again: the
 * runner keeps one supervisor for the next command.
 *
 * Runner and supervisor talk over a socket. The runner sends a command with its fds, and the
 * numbers of signals while the command runs. When the runner shuts its side of the socket down, or
 * dies, the supervisor kills all that is below it.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "moat-guest/command/command.h"
#include "moat-guest/common/job.h"

/* What has become of a command. */
struct report {
	enum wire_how how;
	uint32_t code; /* as in WIRE_EXIT */
	bool reusable; /* the supervisor waits for another command */
};

/* Remembers the limits that commands are to have, before the runner changes its own. */
void supervisor_keep_limits(void);

/* Starts a command under the idle supervisor, or a new one. 0 or an errno. */
int supervisor_start(struct supervisor *idle, const struct command *c,
	const struct command_fds *fds, struct supervisor *ret);
/*
 * Looks, without waiting, whether the supervisor has said how the command ended. 1: it has, and the
 * report is filled; 0: not yet; -1: the supervisor was killed.
 */
int supervisor_listen(int socket, struct report *report);
/* Signals the command's process group. */
void supervisor_signal(int socket, uint32_t number);
/* Kills the command and all that it has started. The report comes when all are dead. */
void supervisor_end_all(int socket);

/* Closes every fd from the first on. */
void close_fds(unsigned first);
