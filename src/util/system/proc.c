#include "util/system/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/group.h"
#include "util/system/io.h"
#include "util/str.h"
#include "util/thread/lock.h"

enum {
	PROC_FDS_MAX = 80,
	SOURCE_FD_MIN = 200, /* our fds are duplicated above any number that a child may ask for */
	LIFELINE_AS = 150,   /* the guard's end of the lifeline */
	KILL_GRACE_MS = 5000,
};

extern char **environ;

void proc_result_free(struct proc_result *r)
{
	buf_free(&r->out);
	buf_free(&r->err);
}

/* The arguments of one posix_spawn besides the request; spawn_free releases all of them. */
struct spawn {
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int sources[PROC_FDS_MAX];
	unsigned n_sources;
	char **argv; /* begins with the guard's arguments */
};

static void spawn_free(struct spawn *s)
{
	for (unsigned i = 0; i < s->n_sources; i++)
		close(s->sources[i]);
	posix_spawn_file_actions_destroy(&s->actions);
	posix_spawnattr_destroy(&s->attr);
	free(s->argv);
}

/* Lets the child have fd under the number `as`. */
static int map_fd(struct spawn *s, int fd, int as, struct err *e)
{
	int source;

	if (s->n_sources == PROC_FDS_MAX)
		return err_set(e, ERR_INTERNAL, "too many fds for a child");
	source = fcntl(fd, F_DUPFD_CLOEXEC, SOURCE_FD_MIN);
	if (source < 0 && errno == EINVAL)
		return err_set(e, ERR_LIMIT,
			"a process may have too few open files: ulimit -n must be above %d",
			SOURCE_FD_MIN + PROC_FDS_MAX);
	if (source < 0)
		return err_sys(e, errno, "dup");
	s->sources[s->n_sources++] = source;
	if (posix_spawn_file_actions_adddup2(&s->actions, source, as) != 0)
		return err_oom(e);
	return 0;
}

static int set_attributes(struct spawn *s, struct err *e)
{
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawnattr_setsigmask(&s->attr, &none) != 0 ||
		posix_spawnattr_setsigdefault(&s->attr, &all) != 0 ||
		posix_spawnattr_setpgroup(&s->attr, 0) != 0 ||
		posix_spawnattr_setflags(&s->attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
							   POSIX_SPAWN_SETPGROUP) != 0)
		return err_set(e, ERR_INTERNAL, "spawn attributes");
	return 0;
}

/* argv, or "moat-helper guard [--confine NAME|--gentle] 150 -- argv". */
static int build_argv(struct spawn *s, const struct proc_req *req, struct err *e)
{
	unsigned n = 0, at = 0;

	while (req->argv[n])
		n++;
	s->argv = calloc(n + 8, sizeof(char *));
	if (!s->argv)
		return err_oom(e);
	if (req->guard) {
		s->argv[at++] = (char *)req->guard;
		s->argv[at++] = (char *)"guard";
		if (req->confine) {
			s->argv[at++] = (char *)"--confine";
			s->argv[at++] = (char *)req->confine;
		}
		if (req->guard_gentle)
			s->argv[at++] = (char *)"--gentle";
		s->argv[at++] = (char *)"150";
		s->argv[at++] = (char *)"--";
	}
	for (unsigned i = 0; i < n; i++)
		s->argv[at++] = (char *)req->argv[i];
	return 0;
}

static int map_stdio(struct spawn *s, const struct proc_req *req, int in_fd, struct err *e)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), failed;

	if (null_fd < 0)
		return err_sys(e, errno, "/dev/null");
	failed = map_fd(s, in_fd > 0 ? in_fd : null_fd, 0, e) < 0 ||
		 map_fd(s, req->out_fd > 0 ? req->out_fd : null_fd, 1, e) < 0 ||
		 map_fd(s, req->err_fd > 0 ? req->err_fd : null_fd, 2, e) < 0;
	close(null_fd);
	return failed ? -1 : 0;
}

static int spawn_with(struct spawn *s, const struct proc_req *req, int in_fd, int lifeline_child,
	struct proc *ret, struct err *e)
{
	pid_t pid;
	int rc;

	if (set_attributes(s, e) < 0 || build_argv(s, req, e) < 0 ||
		map_stdio(s, req, in_fd, e) < 0)
		return -1;
	for (unsigned i = 0; i < req->n_fds; i++)
		if (map_fd(s, req->fds[i].fd, req->fds[i].as, e) < 0)
			return -1;
	if (lifeline_child >= 0 && map_fd(s, lifeline_child, LIFELINE_AS, e) < 0)
		return -1;
	if (req->cwd && posix_spawn_file_actions_addchdir_np(&s->actions, req->cwd) != 0)
		return err_oom(e);
	rc = posix_spawnp(&pid, req->program ? req->program : s->argv[0], &s->actions, &s->attr,
		s->argv, req->env ? (char *const *)req->env : environ);
	if (rc)
		return err_sys(e, rc, "cannot run %s", req->argv[0]);
	ret->pid = pid;
	ret->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec: pidfds always are */
	if (ret->pidfd < 0) {
		err_sys(e, errno, "pidfd_open");
		kill(-pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return -1;
	}
	return 0;
}

static int start_with_input(const struct proc_req *req, int in_fd, struct proc *ret, struct err *e)
{
	struct spawn s = {0};
	struct proc p = PROC_NONE;
	int line[2] = {-1, -1}, failed;

	if (req->guard && pipe2(line, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	posix_spawn_file_actions_init(&s.actions);
	posix_spawnattr_init(&s.attr);
	failed = spawn_with(&s, req, in_fd, line[0], &p, e) < 0;
	spawn_free(&s);
	if (line[0] >= 0)
		close(line[0]);
	if (failed) {
		if (line[1] >= 0)
			close(line[1]);
		return -1;
	}
	p.lifeline = line[1];
	p.guarded = req->guard;
	p.gentle = req->guard_gentle;
	*ret = p;
	return 0;
}

int proc_small_env(struct strv *ret, struct err *e)
{
	static const char *const kept[] = {"PATH", "LD_LIBRARY_PATH", "MOAT_HOME"};

	for (unsigned i = 0; i < ARRAY_LEN(kept); i++)
		if (getenv(kept[i]))
			strv_addf(ret, "%s=%s", kept[i], getenv(kept[i]));
	strv_add(ret, "LANG=C.UTF-8");
	return strv_check(ret, e);
}

int proc_start(const struct proc_req *req, struct proc *ret, struct err *e)
{
	return start_with_input(req, req->in_fd, ret, e);
}

int proc_code_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Waits for the guard's end, and says whether it was killed. It stays there to be reaped. */
static bool was_killed(const struct proc *p)
{
	siginfo_t info = {0};

	while (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	return info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
}

/* Reaps a process that has ended or was killed; returns its exit code. */
static int reap(struct proc *p)
{
	int status = 0;

	lock_check_wait();
	/* A guard leaves no process behind, unless it was killed itself: then its group may live.
	 * Until we reap the guard, the group's number cannot be used again. */
	if (p->guarded && !p->gentle) {
		kill(-p->pid, SIGKILL);
		if (was_killed(p))
			group_wait(p->pid, KILL_GRACE_MS);
	}
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(p->pidfd);
	if (p->lifeline >= 0)
		close(p->lifeline);
	*p = PROC_NONE;
	return proc_code_of(status);
}

int proc_wait(const struct op *op, struct proc *p, int *ret_code, struct err *e)
{
	if (op_wait_fd(op, p->pidfd, POLLIN, e) < 0)
		return -1;
	*ret_code = reap(p);
	return 0;
}

void proc_interrupt(const struct proc *p)
{
	if (p->pid > 0)
		kill(p->pid, SIGINT); /* the guard passes it on */
}

void proc_end(struct proc *p)
{
	if (p->pid > 0 && !p->guarded)
		kill(-p->pid, SIGKILL);
	if (p->lifeline >= 0)
		close(p->lifeline); /* the guard kills all below it */
	p->lifeline = -1;
}

void proc_kill(struct proc *p)
{
	struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};

	if (p->pid < 0)
		return;
	proc_end(p);
	if (p->guarded)
		kill(p->pid, SIGCONT); /* should somebody have stopped it */
	/* A guard that has not ended after this time is killed itself. */
	if (p->guarded && poll(&ended, 1, KILL_GRACE_MS) <= 0)
		kill(-p->pid, SIGKILL);
	reap(p);
}

/* The three pipes of proc_run. Ours are in[1], out[0] and err[0]. */
struct pipes {
	int in[2], out[2], err[2];
};

static void pipes_free(struct pipes *p)
{
	int *all = &p->in[0];

	for (unsigned i = 0; i < sizeof(*p) / sizeof(int); i++)
		if (all[i] >= 0)
			close(all[i]);
}

static int pipes_open(struct pipes *p, struct err *e)
{
	if (pipe2(p->in, O_CLOEXEC) < 0 || pipe2(p->out, O_CLOEXEC) < 0 ||
		pipe2(p->err, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	if (fd_set_nonblock(p->in[1], e) < 0 || fd_set_nonblock(p->out[0], e) < 0 ||
		fd_set_nonblock(p->err[0], e) < 0)
		return -1;
	return 0;
}

static void close_one(int *fd)
{
	close(*fd);
	*fd = -1;
}

/* Reads once into the buffer; closes the fd at the end of file. */
static int drain(int *fd, struct buf *into, size_t max, struct err *e)
{
	uint8_t *room = buf_room(into, 16384);
	ssize_t got;

	if (!room)
		return err_oom(e);
	got = read(*fd, room, 16384);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, errno, "read");
	if (got == 0)
		close_one(fd);
	buf_grew(into, (size_t)got);
	if (into->len > max)
		return err_set(e, ERR_LIMIT, "it printed more than %zu bytes", max);
	return 0;
}

static void feed(int *fd, struct bytes *left)
{
	ssize_t done = left->len ? write(*fd, left->p, left->len) : 0;

	if (done > 0) {
		left->p += done;
		left->len -= (size_t)done;
	}
	if (left->len == 0 || (done < 0 && errno != EAGAIN && errno != EINTR))
		close_one(fd); /* no error: a child need not read its input */
}

static int pump(const struct op *op, const struct proc_req *req, struct pipes *p,
	struct proc_result *res, struct err *e)
{
	struct bytes input = req->input;

	while (p->out[0] >= 0 || p->err[0] >= 0) {
		struct pollfd fds[] = {
			{.fd = p->out[0], .events = POLLIN},
			{.fd = p->err[0], .events = POLLIN},
			{.fd = p->in[1], .events = POLLOUT},
		};

		if (op_wait_fds(op, fds, 3, e) < 0)
			return -1;
		if (fds[0].revents && drain(&p->out[0], &res->out, req->out_max, e) < 0)
			return -1;
		if (fds[1].revents && drain(&p->err[0], &res->err, req->out_max, e) < 0)
			return -1;
		if (fds[2].revents)
			feed(&p->in[1], &input);
	}
	return 0;
}

int proc_run(
	const struct op *op, const struct proc_req *req, struct proc_result *ret, struct err *e)
{
	__attribute__((cleanup(pipes_free))) struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}};
	auto_proc_result struct proc_result res = {0};
	auto_proc struct proc p = PROC_NONE;
	struct proc_req child = *req;

	if (req->out_max == 0)
		return err_set(e, ERR_INTERNAL, "%s: no output limit", req->argv[0]);
	if (pipes_open(&pipes, e) < 0)
		return -1;
	child.out_fd = pipes.out[1];
	child.err_fd = pipes.err[1];
	if (start_with_input(&child, pipes.in[0], &p, e) < 0)
		return -1;
	close_one(&pipes.in[0]);
	close_one(&pipes.out[1]);
	close_one(&pipes.err[1]);
	if (pump(op, req, &pipes, &res, e) < 0 || proc_wait(op, &p, &res.exit_code, e) < 0)
		return err_wrap(e, "%s", req->argv[0]);
	*ret = res;
	res = (struct proc_result){0};
	return 0;
}

int proc_run_ok(const struct op *op, const struct proc_req *req, struct err *e)
{
	auto_proc_result struct proc_result res = {0};
	auto_free char *text = NULL;
	char *last;

	if (proc_run(op, req, &res, e) < 0)
		return -1;
	if (res.exit_code == 0)
		return 0;
	text = buf_take_str(&res.err);
	if (!text)
		return err_oom(e);
	while (*text && text[strlen(text) - 1] == '\n')
		text[strlen(text) - 1] = 0;
	last = strrchr(text, '\n');
	err_set(e, ERR_BACKEND, "%s: %s", req->argv[0],
		*text ? (last ? last + 1 : text) : "failed without a word");
	e->sys = res.exit_code;
	return -1;
}
