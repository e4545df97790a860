#include "runner/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/command.h"
#include "runner/orders.h"
#include "runner/supervise.h"
#include "util/tree.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif

enum { SOCKET_FD = 3, SIGNALS_FD, FIRST_OTHER_FD, STACK_SIZE = 64 * 1024 };

static struct rlimit files_limit;
static bool have_files_limit;

void supervisor_keep_limits(void)
{
	have_files_limit = getrlimit(RLIMIT_NOFILE, &files_limit) == 0;
}

void close_from(unsigned first)
{
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, ~0U, 0) == 0)
		return;
#endif
	for (long fd = first, end = sysconf(_SC_OPEN_MAX); fd < end; fd++)
		close((int)fd);
}

/*
 * All signals stay blocked, here and in a new process until it has become the command. So nothing
 * but SIGKILL ends us, and commands find every signal with its default action: what the runner has
 * arranged for itself is undone here, once.
 */
static void set_signals(void)
{
	static const int changed[] = {SIGTERM, SIGPIPE, SIGHUP, SIGINT, SIGCHLD};
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
		signal(changed[i], SIG_DFL);
}

/*
 * Keeps the socket and nothing else: no pipe, whose end would never be seen, and no socket of
 * another supervisor. Commands without input get 0 as it is.
 */
static void set_fds(int socket)
{
	int high = fcntl(socket, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t child;
	int signals;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
	if (high < 0 || null < 0 || signals < 0 || dup2(null, 0) < 0)
		_exit(1);
	if ((signals != SIGNALS_FD && dup3(signals, SIGNALS_FD, O_CLOEXEC) < 0) ||
		dup3(high, SOCKET_FD, O_CLOEXEC) < 0)
		_exit(1);
	close_from(FIRST_OTHER_FD);
}

/* The runner is exempt from the out-of-memory killer; commands are not. */
static void allow_oom_kill(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (write(fd, "0", 1) < 0)
			errno = 0; /* not root: then nothing was changed either */
		close(fd);
	}
}

static void report(const struct job *job, int status, bool alone)
{
	struct report r = {.stage = job->state.stage,
		.value = job->state.stage == JOB_RUNS ? status : job->state.error,
		.alone = alone};

	/* Fails only if the runner is gone; the next thing read from the socket tells. */
	if (send(SOCKET_FD, &r, sizeof(r), MSG_NOSIGNAL) < 0)
		return;
}

/* Reaps whatever has ended, but leaves the command for later: that takes time, and the runner is
 * waiting to hear of it. */
static bool has_ended(pid_t command, int *ret_status)
{
	siginfo_t info = {0};
	int status;
	pid_t pid;

	if (waitid(P_PID, (id_t)command, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
		*ret_status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
		return true;
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command) {
			*ret_status = status;
			return true;
		}
	return false;
}

/* Asks for those that could stop, which are the living; it does not wait for one to do so. */
static bool has_living_children(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

static void forget_signals(void)
{
	struct signalfd_siginfo child;

	while (read(SIGNALS_FD, &child, sizeof(child)) > 0)
		continue;
}

/* Returns the command's wait status when it has ended, or has been ended with everything. */
static int watch_over(pid_t command, bool *ret_told_to_end)
{
	struct pollfd fds[] = {
		{.fd = SOCKET_FD, .events = POLLRDHUP}, /* its orders are not for us now */
		{.fd = SIGNALS_FD, .events = POLLIN},
	};
	int status;

	for (;;) {
		if (poll(fds, 2, -1) > 0 && fds[0].revents) {
			*ret_told_to_end = true;
			return tree_end(command);
		}
		if (has_ended(command, &status))
			return status;
		forget_signals(); /* whoever ends from now on makes it readable again */
		if (has_ended(command, &status))
			return status;
	}
}

static int become_command(void *arg)
{
	command_run(arg);
}

/*
 * The new process uses our memory until it has become the command, on a stack of its own: nothing
 * is copied only to be thrown away. Unlike after vfork(2) we go on at once, to sleep until the
 * command's end, and are not woken in between. Sanitizers know only stacks that they have seen.
 */
static pid_t make_process(struct command *c)
{
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
	pid_t pid = fork();

	if (pid == 0)
		become_command(c);
	return pid;
#else
	static char stack[STACK_SIZE] __attribute__((aligned(64)));

	return clone(become_command, stack + STACK_SIZE, CLONE_VM | SIGCHLD, c);
#endif
}

/* True if another can follow. */
static bool do_job(struct job *job, int out, int err)
{
	struct command c = {job, getpid(), SOCKET_FD, out, err};
	bool told_to_end = false, alone;
	pid_t pid = make_process(&c);
	int status = 0;

	close(out);
	close(err);
	if (pid < 0) {
		job->state.error = errno;
		job->state.stage = JOB_NO_EXEC;
	} else {
		status = watch_over(pid, &told_to_end);
		if (!job->state.started && job->state.stage == JOB_RUNS)
			return false; /* killed while it waited, or the runner is gone */
	}
	alone = !has_living_children();
	report(job, status, alone);
	return alone && !told_to_end;
}

_Noreturn void supervisor_live(int socket, struct job *job)
{
	int pipes[2];

	set_signals();
	set_fds(socket);
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	allow_oom_kill();
	if (have_files_limit)
		setrlimit(RLIMIT_NOFILE, &files_limit);
	while (order_receive(SOCKET_FD, ORDER_GET_READY, pipes, 2) == 0) {
		forget_signals();
		while (waitpid(-1, NULL, WNOHANG) > 0)
			continue; /* what the last command has left */
		if (!do_job(job, pipes[0], pipes[1]))
			break;
	}
	_exit(0);
}
