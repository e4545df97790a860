/*
 * How it works: the daemon holds the writing end of a pipe, the lifeline, and never writes to it.
 * When the daemon closes it, or dies in any way, the guard sees the end of the pipe, kills
 * everything below itself and leaves. The guard is a subreaper, so nothing can slip out of its
 * tree; with --isolate the tree is a pid namespace too, which the kernel clears at one stroke if
 * the guard itself is killed.
 *
 * With --gentle it is for a command that starts things which are meant to outlive it: the guard
 * touches the command's process group only, and passes an interrupt on to it.
 */
#include "util/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/confine.h"
#include "util/memory.h"
#include "util/tree.h"

static int fail(const char *what)
{
	fprintf(stderr, "moat guard: %s: %s\n", what, strerror(errno));
	return 125;
}

/*
 * New pid and network namespaces; our children live in them. A kernel that forbids it (no user
 * namespaces for ordinary users) costs the second wall, not the sandbox: `moat doctor` says so.
 */
static void isolate(void)
{
	confine_namespaces(CLONE_NEWPID | CLONE_NEWNET);
}

/*
 * What a guest might break into must not be root. The one thing that an isolated command may still
 * open by name is /dev/kvm, by its group; everything else it gets as open files.
 */
static int drop_rights(void)
{
	struct stat st;

	return confine_rights(stat("/dev/kvm", &st) == 0 ? st.st_gid : CONFINE_NOBODY);
}

/* guard_end: hangs up when the guard is gone. */
static void exec_command(char **argv, int isolated, const sigset_t *mask, int guard_end)
{
	struct pollfd guard = {.fd = guard_end};

	sigprocmask(SIG_SETMASK, mask, NULL);
	if (isolated)
		memory_victim(0, MEMORY_VICTIM_FIRST);
	if (isolated && drop_rights() < 0)
		_exit(fail("cannot become an ordinary user"));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which clears it */
	if (poll(&guard, 1, 0) != 0)
		_exit(128 + SIGKILL); /* it was killed before that */
	execvp(argv[0], argv);
	fprintf(stderr, "moat: cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static int code_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Reaps whatever ended; the status of the command itself, or -1 while it runs. */
static int reap_until(pid_t command)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command)
			return code_of(status);
	return -1;
}

/* As from a terminal: for the whole group. Blocked here, it comes back to us once. */
static void pass_interrupt(const struct signalfd_siginfo *info)
{
	if ((pid_t)info->ssi_pid != getpid())
		kill(0, SIGINT);
}

/* *command becomes 0 when it has ended by itself: its number may be somebody else's from then on.
 */
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

/* After isolate() this child is process 1 of the new pid namespace: its end takes all the others
 * along. */
static pid_t start_command(char **argv, int isolated, const sigset_t *mask)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(ends[1]);
		exec_command(argv, isolated, mask, ends[0]);
	}
	close(ends[0]); /* the other stays open as long as we live */
	return pid;
}

int guard_main(int argc, char **argv)
{
	int at = 1, lifeline, sigfd, code;
	sigset_t chld, old;
	pid_t command;

	int want_isolation = at < argc && strcmp(argv[at], "--isolate") == 0;
	int gentle = at < argc && strcmp(argv[at], "--gentle") == 0;
	at += want_isolation || gentle;
	if (argc < at + 3 || strcmp(argv[at + 1], "--") != 0) {
		fprintf(stderr, "moat guard is internal to moat\n");
		return 2;
	}
	lifeline = atoi(argv[at]);
	if (fcntl(lifeline, F_SETFD, FD_CLOEXEC) < 0)
		return fail("lifeline");
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (gentle)
		sigaddset(&chld, SIGINT);
	sigprocmask(SIG_BLOCK, &chld, &old);
	sigfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sigfd < 0 || (!gentle && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0))
		return fail("setup");
	if (want_isolation)
		isolate();
	command = start_command(argv + at + 2, want_isolation, &old);
	if (command < 0)
		return fail("fork");
	code = watch(&command, lifeline, sigfd);
	if (!gentle)
		tree_end(command);
	else if (command)
		kill(0, SIGKILL); /* we are one of the group */
	/* Without exit handlers: with its pid namespace ended, this process cannot start the thread
	 * that a leak checker wants, and the command's code would be lost. */
	_exit(code);
}
