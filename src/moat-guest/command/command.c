#include "moat-guest/command/command.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	STRINGS_BIG = 1024 * 1024,
	STACK_FOR_BIG = 32 * 1024 * 1024,
};

/* The kernel gives arguments and environment a quarter of the stack, 6 MiB at most. */
static void make_room_for_strings(const struct command *c)
{
	struct rlimit stack;

	if (c->len <= STRINGS_BIG || getrlimit(RLIMIT_STACK, &stack) < 0 ||
		stack.rlim_cur == RLIM_INFINITY || stack.rlim_cur >= STACK_FOR_BIG)
		return;
	stack.rlim_cur = stack.rlim_max < STACK_FOR_BIG ? stack.rlim_max : (rlim_t)STACK_FOR_BIG;
	setrlimit(RLIMIT_STACK, &stack);
}

/* 0 or an errno. */
static int enter_directory(const struct command *c)
{
	const char *cwd = c->strings;
	char path[4096];
	int error;

	if (!cwd[0])
		return chdir(c->user.home) == 0 || chdir("/") == 0 ? 0 : errno;
	error = user_path(&c->user, "", cwd, path, sizeof(path));
	if (error)
		return error;
	return chdir(path) < 0 ? errno : 0;
}

static const char *path_of(char *const *env)
{
	for (; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "";
}

/* Along the PATH that the command itself will see. Returns the most telling errno. */
static int execute(char *const *argv, char *const *env)
{
	const char *at = path_of(env), *end;
	char path[4096];
	int error = ENOENT;

	if (strchr(argv[0], '/') || !argv[0][0]) {
		execve(argv[0], argv, env);
		return errno;
	}
	for (;; at = end + 1) {
		end = strchrnul(at, ':');
		if (snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - at), at,
			    end > at ? "/" : "", argv[0]) < (int)sizeof(path)) {
			execve(path, argv, env);
			if (errno != ENOENT && errno != ENOTDIR)
				error = errno;
			if (error != ENOENT && error != EACCES)
				return error;
		}
		if (!*end)
			return error;
	}
}

const char *command_name(const struct command *c)
{
	return c->strings + strlen(c->strings) + 1;
}

char **command_vectors(const struct command *c)
{
	char **vector = calloc((size_t)c->argc + c->envc + 2, sizeof(*vector)), **at = vector;
	const char *s = command_name(c);

	for (uint32_t i = 0; vector && i < c->argc + c->envc; i++, s += strlen(s) + 1) {
		if (i == c->argc)
			at++;
		*at++ = (char *)(uintptr_t)s;
	}
	return vector;
}

enum wire_how command_become(
	const struct command *c, char **vectors, const struct command_fds *fds, int *ret_error)
{
	sigset_t none;

	if (dup2(fds->in, 0) < 0 || dup2(fds->out, 1) < 0 || dup2(fds->err, 2) < 0) {
		*ret_error = errno;
		return WIRE_NO_EXEC;
	}
	if (c->tty)
		ioctl(0, TIOCSCTTY, 0);
	make_room_for_strings(c);
	*ret_error = user_become(&c->user);
	if (*ret_error)
		return WIRE_NO_USER;
	*ret_error = enter_directory(c);
	if (*ret_error)
		return WIRE_NO_CWD;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	*ret_error = execute(vectors, vectors + c->argc + 1);
	return WIRE_NO_EXEC;
}
