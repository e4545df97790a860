#include "runner/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runner/orders.h"
#include "runner/supervisor.h"

enum {
	STRINGS_BIG = 1024 * 1024,
	STACK_FOR_BIG = 32 * 1024 * 1024,
};

static _Noreturn void give_up(struct job *job, enum job_stage stage, int error)
{
	job->state.error = error;
	job->state.stage = stage;
	_exit(127);
}

static void get_ready(const struct command *c)
{
	signal(SIGIO, SIG_DFL); /* the supervisor's orders, which are not ours */
	setsid();
	if (dup2(c->out, 1) < 0 || dup2(c->err, 2) < 0)
		_exit(127);
	/* What else the supervisor has goes now, and not when somebody waits for the command. */
	close_fds((unsigned)c->input + 1, (unsigned)(c->out > c->err ? c->out : c->err));
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != c->supervisor)
		_exit(127);
}

/* Returns its input; -1: none of its own. */
static int wait_for_job(const struct command *c)
{
	enum job_go go = job_wait(c->job, c->place);
	int in = -1;

	/* In one order with early_signal, which is looked at after it: see supervise_signal. */
	__atomic_store_n(&c->job->state.pid, (int32_t)getpid(), __ATOMIC_SEQ_CST);
	if (go == JOB_GO_WITH_INPUT && order_receive(c->input, &in, 1) < 0)
		_exit(127); /* the runner is gone */
	return in;
}

static void take_input(struct job *job, int in)
{
	if (job->tty)
		ioctl(in, TIOCSCTTY, 0);
	if ((in >= 0 && dup2(in, 0) < 0) || (job->tty && (dup2(in, 1) < 0 || dup2(in, 2) < 0)))
		give_up(job, JOB_NO_EXEC, errno);
}

/* The kernel gives arguments and environment a quarter of the stack, 6 MiB at most. */
static void make_room_for_strings(const struct job *job)
{
	struct rlimit stack;

	if (job->strings <= STRINGS_BIG || getrlimit(RLIMIT_STACK, &stack) < 0 ||
		stack.rlim_cur == RLIM_INFINITY || stack.rlim_cur >= STACK_FOR_BIG)
		return;
	stack.rlim_cur = stack.rlim_max < STACK_FOR_BIG ? stack.rlim_max : (rlim_t)STACK_FOR_BIG;
	setrlimit(RLIMIT_STACK, &stack);
}

static int enter(const struct job *job)
{
	char path[4096];
	int error;

	if (!job->cwd[0])
		return chdir(job->user.home) == 0 || chdir("/") == 0 ? 0 : errno;
	error = user_path(&job->user, "", job->cwd, path, sizeof(path));
	if (error)
		return error;
	return chdir(path) < 0 ? errno : 0;
}

static void free_signals(const struct job *job)
{
	int early = __atomic_load_n(&job->state.early_signal, __ATOMIC_SEQ_CST);
	sigset_t none;

	if (early)
		kill(getpid(), early);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
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

_Noreturn void command_run(const struct command *c)
{
	struct job *job = c->job;
	int error, in;

	get_ready(c);
	in = wait_for_job(c);
	job->state.started = 1;
	take_input(job, in);
	make_room_for_strings(job);
	error = user_become(&job->user, &c->joined);
	if (error)
		give_up(job, JOB_NO_USER, error);
	error = enter(job);
	if (error)
		give_up(job, JOB_NO_CWD, error);
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	free_signals(job);
	give_up(job, JOB_NO_EXEC, execute(job->argv, job->env));
}
