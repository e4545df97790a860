#include "moat-guest/command/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "moat-guest/command/output.h"
#include "moat-guest/command/prepare.h"
#include "moat-guest/command/pty.h"
#include "util/auto.h"
#include "wire/tree.h"

enum {
	KILL_GRACE_MS = 4000, /* then answer, even if something in the guest will not die */
	SIGNAL_MAX = 64,
};

/* what: the user, directory or program that failed; see failed_name. */
static void answer(struct runner *r, const struct wire_msg *m, const char *what)
{
	char text[256] = "";

	if (m->how == WIRE_NO_USER && m->code == ENOENT)
		snprintf(text, sizeof(text), "no such user: %s", what);
	else if (m->how >= WIRE_NO_USER)
		snprintf(text, sizeof(text), "%s: %s", what, strerror((int)m->code));
	uplink_send(&r->uplink, m, text, strlen(text));
}

static void exec_release(struct job *job)
{
	struct exec *x = (struct exec *)job;

	watch_close(job->runner, &x->supervisor); /* ends all that is below it */
	input_close(&x->in);
	output_close(x);
	free(x->command);
	x->command = NULL;
}

/* The user, directory or command that the failure is about. */
static const char *failed_name(const struct exec *x)
{
	const struct command *c = x->command;

	switch (x->report.how) {
	case WIRE_NO_USER:
		return c->user.name;
	case WIRE_NO_CWD:
		return c->strings[0] ? c->strings : "/";
	default:
		return command_name(c);
	}
}

/* Sends the answer and ends the job. */
static void finish(struct exec *x)
{
	struct wire_msg m = {.type = WIRE_EXIT,
		.id = x->job.id,
		.how = (uint8_t)x->report.how,
		.code = x->report.code,
		.timed_out = x->timed_out,
		.size = x->out[0].total,
		.size2 = x->out[1].total};

	job_consume(&x->job, 0, true);
	if (x->spilled)
		uplink_send(&x->job.runner->uplink, &m, x->spilled, strlen(x->spilled));
	else
		answer(x->job.runner, &m, failed_name(x));
	uplink_flush(&x->job.runner->uplink); /* the host need not wait for our cleaning up */
	if (!x->tty && !x->killing)
		output_discard(x);
	exec_release(&x->job);
	job_close(&x->job);
}

/* One supervisor is kept for the next command; any other ends when its socket is closed. */
static void leave_supervisor(struct exec *x)
{
	struct runner *r = x->job.runner;

	if (x->report.reusable && !x->killing && r->idle_supervisor.socket < 0) {
		watch_set(r, &x->supervisor, 0);
		r->idle_supervisor =
			(struct supervisor){take_fd(&x->supervisor.fd), x->supervisor_pid};
	}
	watch_close(r, &x->supervisor);
}

static void command_ended(struct exec *x)
{
	x->ended = true;
	x->job.deadline = 0;
	leave_supervisor(x);
	if (!x->cancelled)
		output_ended(x);
	if (x->cancelled || !output_waits(x)) {
		finish(x);
		return;
	}
	output_watch(x);
	job_wants_to_send(&x->job);
}

/* The supervisor was killed, or cannot do its work: ends what is left of its session, and of that
 * of the terminal. */
static void supervisor_lost(struct exec *x)
{
	tree_kill_session(x->supervisor_pid);
	if (x->tty)
		tree_kill_session(pty_session(x->in.watch.fd));
	x->report = (struct report){.how = WIRE_SIGNALED, .code = SIGKILL};
	command_ended(x);
}

/* True: the command has ended. */
static bool look(struct exec *x)
{
	int got = supervisor_listen(x->supervisor.fd, &x->report);

	if (got > 0)
		command_ended(x);
	else if (got < 0)
		supervisor_lost(x);
	return got != 0;
}

static void supervisor_ready(struct watch *w, uint32_t events)
{
	(void)events;
	look((struct exec *)((char *)w - offsetof(struct exec, supervisor)));
}

static void kill_all(struct exec *x)
{
	if (x->killing)
		return;
	x->killing = true;
	supervisor_end_all(x->supervisor.fd);
	/* The supervisor waits for a new process that hangs in a dead file system. */
	tree_kill_children(x->supervisor_pid);
	x->job.deadline = clock_ms() + KILL_GRACE_MS;
}

static void exec_expired(struct job *job)
{
	struct exec *x = (struct exec *)job;

	if (look(x))
		return; /* just in time */
	if (x->killing) {
		supervisor_lost(x);
		return;
	}
	x->timed_out = true;
	kill_all(x);
}

static void exec_cancel(struct job *job)
{
	struct exec *x = (struct exec *)job;

	x->cancelled = true;
	if (x->ended)
		finish(x); /* without the rest of the output */
	else
		kill_all(x);
}

static void exec_signal(struct job *job, uint32_t number)
{
	struct exec *x = (struct exec *)job;
	pid_t group = x->tty ? pty_foreground(x->in.watch.fd) : 0;

	if (!number || number > SIGNAL_MAX || x->ended || x->killing)
		return;
	if (group)
		kill(-group, (int)number);
	else
		supervisor_signal(x->supervisor.fd, number);
}

static void exec_resize(struct job *job, uint16_t rows, uint16_t cols)
{
	struct exec *x = (struct exec *)job;

	if (x->tty)
		pty_resize(x->in.watch.fd, rows, cols);
}

static void exec_data(struct job *job, const uint8_t *p, size_t len)
{
	input_data(&((struct exec *)job)->in, p, len);
}

static void exec_eof(struct job *job)
{
	input_eof(&((struct exec *)job)->in);
}

static bool exec_send_some(struct job *job)
{
	struct exec *x = (struct exec *)job;

	output_send_some(x);
	if (x->ended && !output_waits(x)) {
		finish(x);
		return false;
	}
	output_watch(x);
	return output_waits(x);
}

static void exec_credited(struct job *job)
{
	struct exec *x = (struct exec *)job;

	output_watch(x);
	if (output_waits(x))
		job_wants_to_send(job);
}

static const struct job_ops exec_ops = {
	.send_some = exec_send_some,
	.credited = exec_credited,
	.data = exec_data,
	.eof = exec_eof,
	.signal = exec_signal,
	.resize = exec_resize,
	.cancel = exec_cancel,
	.expired = exec_expired,
	.release = exec_release,
};

static struct exec *exec_new(struct runner *r, const struct wire_msg *m)
{
	struct exec *x = (struct exec *)job_new(r, m->id, sizeof(*x), &exec_ops);

	if (!x)
		return NULL;
	x->supervisor = (struct watch){.fd = -1, .ready = supervisor_ready};
	x->tty = m->flags & WIRE_EXEC_PTY;
	x->capture = m->flags & WIRE_EXEC_CAPTURE;
	x->spill = x->capture && (m->flags & WIRE_EXEC_SPILL);
	input_init(&x->in, &x->job, -1, x->tty);
	output_init(x, m->max);
	if (m->timeout_ms)
		x->job.deadline = clock_ms() + m->timeout_ms;
	return x;
}

/* Ours is nonblocking; the command does not expect that of its end. 0 or an errno. */
static int open_pipe(int *ret_ours, int *ret_theirs, bool we_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return errno;
	*ret_ours = fds[we_read ? 0 : 1];
	*ret_theirs = fds[we_read ? 1 : 0];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

static int open_pipes(struct exec *x, bool with_input, struct command_fds *theirs)
{
	int error = with_input ? open_pipe(&x->in.watch.fd, &theirs->in, false) : 0;

	for (int i = 0; i < 2 && !error; i++)
		error = open_pipe(&x->out[i].watch.fd, &x->out[i].theirs, true);
	theirs->out = x->out[0].theirs;
	theirs->err = x->out[1].theirs;
	return error;
}

/* Two fds for the master, so that its directions are watched separately. */
static int open_terminal(struct exec *x, const struct wire_msg *m, struct command_fds *theirs)
{
	int error = pty_open(x->command->user.uid, &x->in.watch.fd, &theirs->in);

	if (error)
		return error;
	pty_resize(x->in.watch.fd, m->rows, m->cols);
	x->out[0].watch.fd = fcntl(x->in.watch.fd, F_DUPFD_CLOEXEC, 3);
	theirs->out = theirs->err = theirs->in;
	return x->out[0].watch.fd < 0 ? errno : 0;
}

/* 0 or an errno. */
static int run(struct exec *x, const struct wire_msg *m)
{
	struct runner *r = x->job.runner;
	struct command_fds theirs = {0, -1, -1}; /* our own stdin is empty */
	struct supervisor s;
	int error = x->tty ? open_terminal(x, m, &theirs)
			   : open_pipes(x, m->flags & WIRE_EXEC_STDIN, &theirs);

	if (!error)
		error = supervisor_start(&r->idle_supervisor, x->command, &theirs, &s);
	if (theirs.in > 0)
		close(theirs.in);
	if (error)
		return error;
	x->supervisor.fd = s.socket;
	x->supervisor_pid = s.pid;
	watch_set(r, &x->supervisor, EPOLLIN);
	if (!x->supervisor.events)
		return errno;
	output_watch(x);
	return 0;
}

static bool refuse(struct runner *r, uint32_t id, enum wire_how how, int error, const char *what)
{
	struct wire_msg m = {
		.type = WIRE_EXIT, .id = id, .how = (uint8_t)how, .code = (uint32_t)error};

	answer(r, &m, what);
	return true;
}

bool exec_start(struct runner *r, const struct wire_msg *m, const struct frame *f)
{
	auto_free struct command *command = NULL;
	struct prepared p;
	struct exec *x;
	int error = prepare_parse(m, f, &p);

	if (error == EINVAL)
		return false;
	if (error)
		return refuse(r, m->id, WIRE_NO_EXEC, error, "command line");
	command = malloc(prepare_size(&p));
	if (!command)
		return refuse(r, m->id, WIRE_NO_EXEC, ENOMEM, "command line");
	error = user_find(p.user, &command->user);
	if (error)
		return refuse(r, m->id, WIRE_NO_USER, error, p.user);
	prepare_fill(&p, m->flags & WIRE_EXEC_PTY, command);
	x = exec_new(r, m);
	if (!x)
		return refuse(r, m->id, WIRE_NO_EXEC, errno, "cannot start a process");
	x->command = take_ptr(&command);
	error = run(x, m);
	if (!error)
		return true;
	exec_release(&x->job);
	job_close(&x->job);
	return refuse(r, m->id, WIRE_NO_EXEC, error, "cannot start a process");
}
