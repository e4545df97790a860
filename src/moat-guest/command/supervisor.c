#include "moat-guest/command/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/auto.h"
#include "wire/tree.h"

enum { SOCKET_FD = 3 }; /* in the supervisor */

/* From the runner to the supervisor. */
struct order {
	uint32_t signal; /* 0: this brings a command with its fds */
	uint32_t size;   /* of the struct command that follows */
};

/* To the runner: how the command has ended. */
struct says {
	int32_t how;  /* enum wire_how */
	int32_t code; /* as in WIRE_EXIT */
	int32_t reusable;
};

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(struct command_fds))];
};

static struct rlimit files_limit;
static bool have_files_limit;

void supervisor_keep_limits(void)
{
	have_files_limit = getrlimit(RLIMIT_NOFILE, &files_limit) == 0;
}

void close_fds(unsigned first)
{
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, ~0U, 0) == 0)
		return;
#endif
	for (long fd = first, end = sysconf(_SC_OPEN_MAX); fd < end; fd++)
		close((int)fd);
}

/* Returns whether the supervisor can be used again: not if the runner is gone. */
static bool say(int how, int code, bool reusable)
{
	struct says says = {how, code, reusable};

	return send(SOCKET_FD, &says, sizeof(says), MSG_NOSIGNAL) >= 0 && reusable;
}

static bool say_end(int status, bool reusable)
{
	if (WIFSIGNALED(status))
		return say(WIRE_SIGNALED, WTERMSIG(status), reusable);
	return say(WIRE_EXITED, WEXITSTATUS(status), reusable);
}

static void on_child(int number)
{
	(void)number; /* it interrupts ppoll */
}

/*
 * All signals are blocked from here on, but for SIGCHLD while the supervisor waits. So nothing but
 * SIGKILL ends it. No signal is ignored, since the command inherits that.
 */
static void set_signals(void)
{
	static const int changed_by_runner[] = {SIGTERM, SIGPIPE, SIGHUP, SIGINT};
	struct sigaction action = {.sa_handler = on_child};
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigaction(SIGCHLD, &action, NULL);
	for (size_t i = 0; i < sizeof(changed_by_runner) / sizeof(changed_by_runner[0]); i++)
		signal(changed_by_runner[i], SIG_DFL);
}

/* The runner is exempt from the out-of-memory killer; commands are not. */
static void allow_oom_kill(void)
{
	auto_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "0", 1) < 0)
		errno = 0; /* not root: then nothing was changed either */
}

/* The next command, malloc'd. NULL: there will be none. */
static struct command *receive_command(struct command_fds *ret_fds)
{
	struct command *c = NULL;
	struct order order;
	union control control;

	do {
		struct iovec iov = {&order, sizeof(order)};
		struct msghdr msg = {.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control.bytes)};

		if (recvmsg(SOCKET_FD, &msg, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof(order))
			return NULL;
		if (!order.signal && (!CMSG_FIRSTHDR(&msg) || CMSG_FIRSTHDR(&msg)->cmsg_len !=
								      CMSG_LEN(sizeof(*ret_fds))))
			return NULL;
	} while (order.signal); /* the signal was for the last command, which had just ended */
	memcpy(ret_fds, CMSG_DATA(&control.head), sizeof(*ret_fds));
	c = malloc(order.size);
	if (c && recv(SOCKET_FD, c, order.size, MSG_WAITALL) == (ssize_t)order.size)
		return c;
	free(c);
	return NULL;
}

/* Reads an order while the command runs. False: the runner wants everything killed, or is dead. */
static bool obey(pid_t command)
{
	struct order order;
	ssize_t n = recv(SOCKET_FD, &order, sizeof(order), MSG_DONTWAIT | MSG_WAITALL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	kill(-command, (int)order.signal);
	return true;
}

/* Waits until the command has ended. True: the supervisor can be used again. */
static bool watch_over(pid_t command)
{
	struct pollfd runner = {.fd = SOCKET_FD, .events = POLLIN};
	sigset_t while_waiting;
	int status, command_status;
	bool ended = false;
	pid_t pid;

	sigfillset(&while_waiting);
	sigdelset(&while_waiting, SIGCHLD);
	for (;;) {
		while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
			if (pid == command) {
				ended = true;
				command_status = status;
			}
		if (ended)
			return say_end(command_status, pid < 0); /* no child is left */
		if (ppoll(&runner, 1, NULL, &while_waiting) > 0 && !obey(command))
			return say_end(tree_end(command), false);
	}
}

/* The result of an attempt to start a command. */
struct outcome {
	enum wire_how stage; /* WIRE_EXITED: the command runs */
	int error;
};

/*
 * Until the new process has become the command it uses the supervisor's memory, and the supervisor
 * waits: nothing is copied only to be thrown away. Returns the pid.
 */
static pid_t start(const struct command *c, char **vectors, const struct command_fds *fds,
	volatile struct outcome *ret)
{
	pid_t pid = vfork();
	int error;

	if (pid == 0) {
		/* A terminal needs a session of its own. Any other command stays in the
		 * supervisor's, where the runner finds it should the supervisor be killed. */
		if (c->tty)
			setsid();
		else
			setpgid(0, 0);
		ret->stage = command_become(c, vectors, fds, &error);
		ret->error = error;
		_exit(127);
	}
	if (pid < 0)
		*ret = (struct outcome){WIRE_NO_EXEC, errno};
	return pid;
}

/* True: the supervisor can be used again. */
static bool run(const struct command *c, const struct command_fds *fds)
{
	auto_free char **vectors = command_vectors(c);
	volatile struct outcome outcome = {WIRE_EXITED, 0};
	pid_t pid;

	if (!vectors)
		return say(WIRE_NO_EXEC, ENOMEM, false);
	pid = start(c, vectors, fds, &outcome);
	close(fds->in);
	close(fds->out);
	close(fds->err);
	if (outcome.stage == WIRE_EXITED)
		return watch_over(pid);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return say((int)outcome.stage, outcome.error, true);
}

static _Noreturn void live(int socket)
{
	struct command_fds fds;
	struct command *c;
	bool again = true;

	set_signals();
	if (dup3(socket, SOCKET_FD, O_CLOEXEC) < 0)
		_exit(1);
	close_fds(SOCKET_FD + 1);
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	allow_oom_kill();
	if (have_files_limit)
		setrlimit(RLIMIT_NOFILE, &files_limit);
	while (again && (c = receive_command(&fds))) {
		again = run(c, &fds);
		free(c);
	}
	_exit(0);
}

/* 0 or an errno. */
static int make(struct supervisor *ret)
{
	auto_fd int ours = -1, theirs = -1;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return errno;
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return errno;
	if (pid == 0)
		live(theirs);
	*ret = (struct supervisor){take_fd(&ours), pid};
	return 0;
}

/* Waits while the socket is full: an idle supervisor does nothing but read. 0 or an errno. */
static int send_command(int socket, const struct command *c, const struct command_fds *fds)
{
	struct order order = {.size = (uint32_t)(sizeof(*c) + c->len)};
	struct iovec iov[] = {{&order, sizeof(order)}, {(void *)(uintptr_t)c, order.size}};
	union control control = {.head = {.cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS,
					 .cmsg_len = CMSG_LEN(sizeof(*fds))}};
	struct msghdr msg = {.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};

	memcpy(CMSG_DATA(&control.head), fds, sizeof(*fds));
	return sendmsg(socket, &msg, MSG_NOSIGNAL) < 0 ? errno : 0;
}

int supervisor_start(struct supervisor *idle, const struct command *c,
	const struct command_fds *fds, struct supervisor *ret)
{
	struct supervisor s = *idle;
	int error;

	idle->socket = -1;
	if (s.socket >= 0 && send_command(s.socket, c, fds) == 0) {
		*ret = s;
		return 0;
	}
	if (s.socket >= 0)
		close(s.socket); /* the idle supervisor was killed */
	error = make(&s);
	if (error)
		return error;
	error = send_command(s.socket, c, fds);
	if (error)
		close(s.socket);
	else
		*ret = s;
	return error;
}

int supervisor_listen(int socket, struct report *report)
{
	struct says says;
	ssize_t n = recv(socket, &says, sizeof(says), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(says))
		return -1;
	*report = (struct report){(enum wire_how)says.how, (uint32_t)says.code, says.reusable};
	return 1;
}

void supervisor_signal(int socket, uint32_t number)
{
	struct order order = {.signal = number};

	send(socket, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void supervisor_end_all(int socket)
{
	shutdown(socket, SHUT_WR);
}
