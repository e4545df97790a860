/*
 * How it works: the daemon holds the writing end of a pipe, the lifeline, and never writes to it.
 * When the daemon closes it, or dies in any way, the guard sees the end of the pipe, kills
 * everything below itself and exits. The guard is a subreaper, so no process can leave its tree.
 * With --confine NAME the command is confined (confine.h). The tree is a pid namespace then: the
 * kernel kills all of it if the guard itself is killed.
 *
 * Without a lifeline ("-") the guard lasts as long as the command: a script runs it so, whose own
 * guard is above. The command then gets none of the files from 10 on, which are the script's.
 *
 * With --gentle the command may start processes that are meant to outlive it (a hypervisor). The
 * guard then kills the command's process group only, and passes SIGINT on to it.
 */
#include "util/system/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/system/confine.h"
#include "util/system/memory.h"
#include "util/system/proc.h"
#include "wire/tree.h"

enum { OF_SHELLS = 10 }; /* shells redirect only files before this one */

static int fail(const char *what)
{
	fprintf(stderr, "moat-helper guard: %s: %s\n", what, strerror(errno));
	return 125;
}

/* The program that will be run, as the confinement has to show it: found in PATH, and without
 * symbolic links. The name itself, if there is none: execvp says so. */
static const char *find_program(const char *name, char found[PATH_MAX])
{
	const char *path = getenv("PATH");
	char dirs[8192], file[PATH_MAX], *at = dirs, *dir;

	if (strchr(name, '/'))
		return realpath(name, found) ? found : name;
	snprintf(dirs, sizeof(dirs), "%s", path ? path : "/usr/bin:/bin");
	while ((dir = strsep(&at, ":"))) {
		snprintf(file, sizeof(file), "%.3000s/%.200s", *dir ? dir : ".", name);
		if (access(file, X_OK) == 0 && realpath(file, found))
			return found;
	}
	return name;
}

/* In the child. guard_end: poll reports a hang-up when the guard has died. */
static void exec_command(
	char **argv, const struct confinement *confined, const sigset_t *mask, int guard_end)
{
	struct pollfd guard = {.fd = guard_end};
	const char *file = argv[0];
	char found[PATH_MAX];

	sigprocmask(SIG_SETMASK, mask, NULL);
	if (confined) {
		memory_victim(0, MEMORY_VICTIM_FIRST);
		file = find_program(argv[0], found);
		if (confine_self(confined, file) < 0)
			_exit(fail("cannot become an ordinary user"));
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which would clear it */
	if (poll(&guard, 1, 0) != 0)
		_exit(128 + SIGKILL); /* the guard died before prctl */
	execvp(file, argv);
	fprintf(stderr, "moat: cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(GUARD_NOT_RUN);
}

/* Reaps all that have ended. Returns the command's exit code, or -1 while it runs. */
static int reap_until(pid_t command)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command)
			return proc_code_of(status);
	return -1;
}

/* SIGINT for the whole process group, as a terminal sends it. We are in the group and have SIGINT
 * blocked, so our own signal comes back through the signalfd: ignore that one. */
static void pass_interrupt(const struct signalfd_siginfo *info)
{
	if ((pid_t)info->ssi_pid != getpid())
		kill(0, SIGINT);
}

/* Waits for the command's end or the lifeline's. Sets *command to 0 when the command was reaped:
 * another process may get its pid then. */
static int watch(pid_t *command, int lifeline, int sigfd)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = lifeline, .events = POLLIN}, {.fd = sigfd, .events = POLLIN}};
		struct signalfd_siginfo info;
		int code = -1;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return fail("poll");
		if (fds[1].revents && read(sigfd, &info, sizeof(info)) > 0) {
			if (info.ssi_signo == SIGINT)
				pass_interrupt(&info);
			code = reap_until(*command);
		}
		if (code >= 0) {
			*command = 0;
			return code;
		}
		if (fds[0].revents)
			return 128 + SIGKILL;
	}
}

/* In a new pid namespace this child is process 1: when it ends, the kernel kills all others in
 * there. */
static pid_t start_command(char **argv, const struct confinement *confined, const sigset_t *mask)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(ends[1]);
		exec_command(argv, confined, mask, ends[0]);
	}
	close(ends[0]); /* ends[1] stays open as long as we live */
	return pid;
}

int guard_main(int argc, char **argv)
{
	int at = 1, lifeline, sigfd, code;
	const struct confinement *confined = NULL;
	sigset_t chld, old;
	pid_t command;

	int gentle = at < argc && strcmp(argv[at], "--gentle") == 0;
	at += gentle;
	if (at + 1 < argc && strcmp(argv[at], "--confine") == 0) {
		confined = confine_find(argv[at + 1]);
		if (!confined)
			return 2;
		at += 2;
	}
	if (argc < at + 3 || strcmp(argv[at + 1], "--") != 0) {
		fprintf(stderr, "moat-helper guard is internal to moat\n");
		return 2;
	}
	lifeline = strcmp(argv[at], "-") == 0 ? -1 : atoi(argv[at]);
	if (lifeline < 0 ? syscall(SYS_close_range, OF_SHELLS, ~0U, 0) < 0
			 : fcntl(lifeline, F_SETFD, FD_CLOEXEC) < 0)
		return fail("lifeline");
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (gentle)
		sigaddset(&chld, SIGINT);
	sigprocmask(SIG_BLOCK, &chld, &old);
	sigfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sigfd < 0 || (!gentle && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0))
		return fail("setup");
	/* Makes the namespaces that our children will be in. Some kernels forbid that to ordinary
	 * users. */
	if (confined)
		confine_namespaces(confined->namespaces);
	/* A guard that somebody has stopped is woken by the daemon's end. After the namespaces,
	 * whose making may clear this. */
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	command = start_command(argv + at + 2, confined, &old);
	if (command < 0)
		return fail("fork");
	code = watch(&command, lifeline, sigfd);
	if (!gentle)
		tree_end(command);
	else if (command)
		kill(0, SIGKILL); /* this ends the guard too: it is in the group */
	/* Exit handlers must not run: a leak checker would start a thread, which fails because our
	 * pid namespace has ended, and the command's exit code would be lost. */
	_exit(code);
}
