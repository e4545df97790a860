#include "runner/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

enum {
	INPUT_FD = 3, /* the first: a process that waits keeps it, and none that follow */
	ORDERS_FD,
	TOLD_FD,
	FIRST_OTHER_FD,
	STACK_SIZE = 64 * 1024,
	/*
	 * What a process sends us that ends before it is the command: then it is not one of those
	 * that wait(2) usually knows, and so no part of what the command may have left behind.
	 */
	WAITER_SIGNAL = SIGUSR2,
};

/* The processes that wait to become a command, one in each place, and the one that has. */
struct crew {
	struct job *job;
	struct command command[JOB_PLACES];
	pid_t pid[JOB_PLACES]; /* 0: nobody */
	bool incomplete;       /* one was killed while it waited */
	struct user joined;    /* whose groups we have, for them to inherit */
};

/* Of this process, which has one, for the signal handler. */
static struct crew crew;

static struct rlimit files_limit;
static bool have_files_limit;

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

void supervisor_keep_limits(void)
{
	have_files_limit = getrlimit(RLIMIT_NOFILE, &files_limit) == 0;
}

void close_fds(unsigned first, unsigned last)
{
	long end = last;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, last, 0) == 0)
		return;
#endif
	if (last == FD_LAST)
		end = sysconf(_SC_OPEN_MAX);
	for (long fd = first; fd <= end; fd++)
		close((int)fd);
}

/*
 * All signals stay blocked, here (but for the one that brings orders, while we wait) and in a new
 * process until it has become the command. So nothing but SIGKILL ends us, and commands find every
 * signal with its default action: what the runner has arranged for itself is undone here, once.
 */
static void set_signals(void)
{
	static const int changed[] = {SIGTERM, SIGPIPE, SIGHUP, SIGINT, SIGCHLD};

	block_all();
	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
		signal(changed[i], SIG_DFL);
}

/*
 * Keeps what we talk by and nothing else: no pipe, whose end would never be seen, and no socket of
 * another supervisor. Commands without input get 0 as it is.
 */
static void set_fds(int orders, int input, int told)
{
	int high_orders = fcntl(orders, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
	int high_input = fcntl(input, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
	int high_told = fcntl(told, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (high_orders < 0 || high_input < 0 || high_told < 0 || null < 0 || dup2(null, 0) < 0)
		_exit(1);
	if (dup3(high_orders, ORDERS_FD, O_CLOEXEC) < 0 ||
		dup3(high_input, INPUT_FD, O_CLOEXEC) < 0 ||
		dup3(high_told, TOLD_FD, O_CLOEXEC) < 0)
		_exit(1);
	close_fds(FIRST_OTHER_FD, FD_LAST);
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

/* Whose place the command has, or JOB_NOBODY. */
static int current(const struct crew *c)
{
	return __atomic_load_n(&c->job->state.place, __ATOMIC_SEQ_CST);
}

static void report(struct job *job, int status, bool alone)
{
	volatile struct job_state *state = &job->state;
	const uint64_t one = 1;

	state->report.stage = state->stage;
	state->report.value = state->stage == JOB_RUNS ? status : state->error;
	state->report.alone = alone;
	__atomic_store_n(&state->reported, 1, __ATOMIC_SEQ_CST);
	if (write(TOLD_FD, &one, sizeof(one)) < 0)
		return; /* then the runner finds it when it looks */
	sched_yield();  /* somebody waits for the answer, nobody for what we do next */
}

/* Asks for those that could stop, which are the living; it does not wait for one to do so. */
static bool has_living_children(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

/* False: the supervisor cannot be used again. */
static bool finish(struct crew *c, int place, int status)
{
	bool alone;

	if (!c->job->state.started && c->job->state.stage == JOB_RUNS)
		return false; /* killed before it could go, or the runner is gone */
	alone = !c->incomplete && !has_living_children();
	c->pid[place] = 0;
	__atomic_store_n(&c->job->state.place, JOB_NOBODY, __ATOMIC_SEQ_CST);
	report(c->job, status, alone);
	return alone;
}

static bool has_anybody(const struct crew *c)
{
	for (int i = 0; i < JOB_PLACES; i++)
		if (c->pid[i])
			return true;
	return false;
}

static int place_of(const struct crew *c, pid_t pid)
{
	for (int i = 0; i < JOB_PLACES; i++)
		if (c->pid[i] == pid)
			return i;
	return JOB_NOBODY;
}

/*
 * Somebody has ended. If it is the command, that is told before it is reaped: somebody waits to
 * hear of it, and until then its number cannot be another's. False: leave.
 */
static bool look_after(struct crew *c, const siginfo_t *ended)
{
	int place = place_of(c, ended->si_pid);
	bool stay = true;

	if (place >= 0 && place == current(c)) {
		stay = finish(c, place,
			ended->si_code == CLD_EXITED ? ended->si_status << 8 : ended->si_status);
	} else if (place >= 0) {
		c->pid[place] = 0;
		c->incomplete = true;
	}
	waitpid(ended->si_pid, NULL, __WALL);
	return stay && (!c->incomplete || current(c) >= 0);
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
	pid_t pid = (pid_t)syscall(SYS_clone, WAITER_SIGNAL, NULL, NULL, NULL, NULL);

	if (pid == 0)
		become_command(c);
	return pid;
#else
	static char stack[JOB_PLACES][STACK_SIZE] __attribute__((aligned(64)));

	return clone(become_command, stack[c->place] + STACK_SIZE, CLONE_VM | WAITER_SIGNAL, c);
#endif
}

/*
 * The next command's user is most often the last one's, and so are the groups. The runner may be
 * writing there: whatever the copy is then, it is what we go by.
 */
static void join_groups(struct crew *c)
{
	if (user_same_groups(&c->job->user, &c->joined))
		return;
	c->joined = c->job->user;
	if (c->joined.n_groups > USER_GROUPS_MAX || user_join_groups(&c->joined) != 0)
		c->joined.n_groups = USER_NOBODYS_GROUPS;
}

/* The runner's order to have one more process wait. False: there will be none. */
static bool get_ready(struct crew *c)
{
	int pipes[2], place = order_receive(ORDERS_FD, pipes, 2), error;
	struct command *command;

	if (place < 0 || place >= JOB_PLACES)
		return false;
	command = &c->command[place];
	command->job = c->job;
	command->supervisor = getpid();
	command->place = (unsigned)place;
	command->input = INPUT_FD;
	command->out = pipes[0];
	command->err = pipes[1];
	join_groups(c);
	if (!user_same_groups(&command->joined, &c->joined))
		command->joined = c->joined; /* it is large, and seldom another */
	c->pid[place] = make_process(command);
	error = errno;
	close(pipes[0]);
	close(pipes[1]);
	if (c->pid[place] > 0)
		return true;
	c->pid[place] = 0;
	if (job_vacate(c->job, (unsigned)place))
		return true; /* nobody misses it yet; a command may be running in another */
	c->job->state.error = error;
	c->job->state.stage = JOB_NO_EXEC;
	report(c->job, 0, false);
	return false;
}

/* Who still waits does so in vain. What the command has left behind goes on without us. */
static void dismiss(const struct crew *c)
{
	for (int i = 0; i < JOB_PLACES; i++)
		if (c->pid[i] > 0) {
			kill(c->pid[i], SIGKILL);
			waitpid(c->pid[i], NULL, __WALL);
		}
}

/* What the runner does if it wants an end to everything, or has come to one itself. */
static void end_all(struct crew *c)
{
	int place = current(c), status;

	if (place < 0)
		return;
	status = tree_end(c->pid[place]);
	memset(c->pid, 0, sizeof(c->pid)); /* with all others */
	if (c->job->state.started || c->job->state.stage != JOB_RUNS)
		report(c->job, status, true);
}

static _Noreturn void leave(void)
{
	dismiss(&crew);
	_exit(0);
}

/* There are orders, or nobody is left who could give any. */
static void on_orders(int number)
{
	struct pollfd orders = {.fd = ORDERS_FD, .events = POLLIN | POLLRDHUP};

	(void)number;
	while (poll(&orders, 1, 0) > 0) {
		if (orders.revents & ~POLLIN) {
			end_all(&crew);
			leave();
		}
		if (!get_ready(&crew))
			leave();
	}
}

/*
 * Orders come as a signal, so that we can wait for a process to end in the one system call that
 * says so, and who. It is handled only while we wait.
 */
static void hear_orders(sigset_t *ret_while_waiting)
{
	struct sigaction on = {.sa_handler = on_orders, .sa_flags = SA_RESTART};

	sigfillset(&on.sa_mask);
	sigfillset(ret_while_waiting);
	sigdelset(ret_while_waiting, SIGIO);
	if (sigaction(SIGIO, &on, NULL) < 0 || fcntl(ORDERS_FD, F_SETOWN, getpid()) < 0 ||
		fcntl(ORDERS_FD, F_SETFL, O_ASYNC) < 0)
		_exit(1);
	on_orders(SIGIO); /* what came before */
}

static void work(void)
{
	sigset_t while_waiting;

	hear_orders(&while_waiting);
	for (;;) {
		siginfo_t ended = {0};
		int error;

		sigprocmask(SIG_SETMASK, &while_waiting, NULL);
		error = waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT | __WALL) < 0 ? errno : 0;
		block_all();
		if (!error && !look_after(&crew, &ended))
			return;
		/* Orders may have come since it looked. */
		if (error == ECHILD && !has_anybody(&crew))
			sigsuspend(&while_waiting);
	}
}

_Noreturn void supervisor_live(int orders, int input, int told, struct job *job)
{
	crew.job = job;
	crew.joined.n_groups = USER_NOBODYS_GROUPS;
	set_signals();
	set_fds(orders, input, told);
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	allow_oom_kill();
	if (have_files_limit)
		setrlimit(RLIMIT_NOFILE, &files_limit);
	work();
	leave();
}
