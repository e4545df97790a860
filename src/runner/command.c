#include "runner/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	STRINGS_BIG = 1024 * 1024,
	STACK_FOR_BIG = 32 * 1024 * 1024,
};

static struct rlimit files_limit;
static bool have_files_limit;

void supervise_keep_limits(void)
{
	have_files_limit = getrlimit(RLIMIT_NOFILE, &files_limit) == 0;
}

void supervise_close_from(unsigned first)
{
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, ~0U, 0) == 0)
		return;
#endif
	for (long fd = first, end = sysconf(_SC_OPEN_MAX); fd < end; fd++)
		close((int)fd);
}

static _Noreturn void give_up(int report_fd, int kind, int error)
{
	report(report_fd, kind, error);
	_exit(127);
}

/* Handlers end with execve; what the runner ignores would not. */
static void default_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
	sigset_t none;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
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

static void set_limits(const struct launch *l)
{
	struct rlimit stack;

	if (have_files_limit)
		setrlimit(RLIMIT_NOFILE, &files_limit);
	/* The kernel gives arguments and environment a quarter of the stack, 6 MiB at most. */
	if (l->strings > STRINGS_BIG && getrlimit(RLIMIT_STACK, &stack) == 0 &&
		stack.rlim_cur != RLIM_INFINITY && stack.rlim_cur < STACK_FOR_BIG) {
		stack.rlim_cur =
			stack.rlim_max < STACK_FOR_BIG ? stack.rlim_max : (rlim_t)STACK_FOR_BIG;
		setrlimit(RLIMIT_STACK, &stack);
	}
}

static int enter(const struct launch *l)
{
	char path[4096];
	int error;

	if (!l->cwd[0])
		return chdir(l->user->home) == 0 || chdir("/") == 0 ? 0 : errno;
	error = user_path(l->user, "", l->cwd, path, sizeof(path));
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

_Noreturn void command_run(const struct launch *l, int report_fd)
{
	int error;

	setsid();
	report(report_fd, REPORT_STARTED, getpid());
	if (l->tty)
		ioctl(STDIN_FILENO, TIOCSCTTY, 0);
	default_signals();
	allow_oom_kill();
	set_limits(l);
	error = user_become(l->user);
	if (error)
		give_up(report_fd, REPORT_NO_USER, error);
	error = enter(l);
	if (error)
		give_up(report_fd, REPORT_NO_CWD, error);
	give_up(report_fd, REPORT_NO_EXEC, execute(l->argv, l->env));
}
