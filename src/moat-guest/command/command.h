/* command.h - what is to run, and how a process becomes it. */
#pragma once

#include "moat-guest/common/users.h"
#include "wire/wire.h"

/* One piece of memory without pointers, so that it can be sent to another process. */
struct command {
	struct user user;
	bool tty; /* stdin is a terminal, to become the controlling one */
	uint32_t argc, envc;
	size_t len;     /* of strings */
	char strings[]; /* directory, argv..., environment..., each ended by NUL. An empty directory
			 * is the home, or "/" if that cannot be entered. */
};

/* What the command gets as 0, 1 and 2. */
struct command_fds {
	int in, out, err;
};

const char *command_name(const struct command *c); /* argv[0] */

/* argv, and behind its NULL the environment, for execve(2). To be freed; NULL: no memory. */
char **command_vectors(const struct command *c);

/*
 * For a new process after vfork(2) that leads a session. It uses its parent's memory, so this
 * allocates nothing and leaves all but its stack alone. All signals must be blocked: one that comes
 * early stays pending until just before the execve(2). All fds but 0, 1 and 2 must be CLOEXEC.
 * Returns only if it fails: WIRE_NO_USER, WIRE_NO_CWD or WIRE_NO_EXEC, and the errno.
 */
enum wire_how command_become(
	const struct command *c, char **vectors, const struct command_fds *fds, int *ret_error);
