#include "runner/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/command.h"
#include "util/tree.h"

enum { REPORT_FD = 3, ORDERS_FD = 4, FIRST_OTHER_FD = 5 };

void report(int fd, int kind, int value)
{
	struct report r = {.kind = kind, .value = value};

	/* Less than PIPE_BUF, and a pipe holds many: neither cut nor blocked. */
	if (write(fd, &r, sizeof(r)) < 0)
		return; /* the runner is gone; its end of the orders tells us the rest */
}

static void on_sigchld(int number)
{
	(void)number; /* it only has to interrupt ppoll */
}

/*
 * The command's stdio and our two pipes, and nothing else: no end of another command's pipes, no
 * orders of other supervisors. Before the command is there, so that it does not get a copy of a
 * large table.
 */
static bool arrange_fds(const struct launch *l, int report_fd, int orders_fd)
{
	int high_report = fcntl(report_fd, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
	int high_orders = fcntl(orders_fd, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);

	if (high_report < 0 || high_orders < 0 || dup2(l->in, 0) < 0 || dup2(l->out, 1) < 0 ||
		dup2(l->err, 2) < 0 || dup3(high_report, REPORT_FD, O_CLOEXEC) < 0 ||
		dup3(high_orders, ORDERS_FD, O_CLOEXEC) < 0)
		return false;
	supervise_close_from(FIRST_OTHER_FD);
	return true;
}

static _Noreturn void finish(int status)
{
	report(REPORT_FD, REPORT_ENDED, status);
	_exit(0);
}

static void signal_group(pid_t command, int number)
{
	/* The group comes into being a moment after the process. */
	if (kill(-command, number) < 0 && errno == ESRCH)
		kill(command, number);
}

static void obey(pid_t command)
{
	uint8_t orders[64];
	ssize_t n = read(ORDERS_FD, orders, sizeof(orders));

	if (n == 0)
		finish(tree_end(command));
	for (ssize_t i = 0; i < n; i++)
		signal_group(command, orders[i]);
}

static _Noreturn void watch_over(pid_t command, const sigset_t *while_waiting)
{
	struct pollfd orders = {.fd = ORDERS_FD, .events = POLLIN};
	int status;
	pid_t pid;

	for (;;) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == command)
				finish(status);
		if (ppoll(&orders, 1, NULL, while_waiting) > 0)
			obey(command);
	}
}

static _Noreturn void supervisor(const struct launch *l, int report_fd, int orders_fd)
{
	struct sigaction on_child = {.sa_handler = on_sigchld};
	sigset_t block, old;
	pid_t command;

	signal(SIGTERM, SIG_IGN);
	sigemptyset(&block);
	sigaddset(&block, SIGCHLD);
	sigprocmask(SIG_BLOCK, &block, &old);
	sigdelset(&old, SIGCHLD);
	sigaction(SIGCHLD, &on_child, NULL);
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (!arrange_fds(l, report_fd, orders_fd)) {
		report(report_fd, REPORT_NO_EXEC, errno);
		_exit(0);
	}
	/* In our memory and with us waiting, until it has become the command: a second copy of
	 * everything would be made only to be thrown away. */
	command = vfork();
	if (command == 0)
		command_run(l, REPORT_FD);
	if (command < 0) {
		report(REPORT_FD, REPORT_NO_EXEC, errno);
		_exit(0);
	}
	for (int fd = 0; fd < REPORT_FD; fd++)
		close(fd); /* or nobody would ever see the end of its output */
	watch_over(command, &old);
}

int supervise(const struct launch *l, int *ret_report, int *ret_orders)
{
	int reports[2], orders[2], error = 0;
	pid_t pid;

	if (pipe2(reports, O_CLOEXEC) < 0)
		return errno;
	if (pipe2(orders, O_CLOEXEC) < 0) {
		error = errno;
		close(reports[0]);
		close(reports[1]);
		return error;
	}
	pid = fork();
	if (pid == 0)
		supervisor(l, reports[1], orders[0]);
	if (pid < 0)
		error = errno;
	close(reports[1]);
	close(orders[0]);
	if (error) {
		close(reports[0]);
		close(orders[1]);
		return error;
	}
	fcntl(reports[0], F_SETFL, O_NONBLOCK);
	fcntl(orders[1], F_SETFL, O_NONBLOCK);
	*ret_report = reports[0];
	*ret_orders = orders[1];
	return 0;
}
