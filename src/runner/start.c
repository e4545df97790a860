/* start.c - from an EXEC frame to a running command. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/exec.h"
#include "runner/prepare.h"
#include "runner/pty.h"
#include "util/auto.h"

enum { TRIES_MAX = 8 };

/* Two fds for the master, so that its directions are watched separately. */
static int run_on_tty(struct exec *x, struct supervisor *s, const struct wire_msg *m)
{
	auto_fd int in = -1, out = -1, slave = -1;
	int error = pty_open(s->job->user.uid, &in, &slave);

	if (error)
		return error;
	pty_resize(in, m->rows, m->cols);
	out = fcntl(in, F_DUPFD_CLOEXEC, 3);
	if (out < 0)
		return errno;
	error = exec_run(x, s, slave, &(struct exec_ends){in, out, -1});
	if (!error)
		in = out = -1;
	return error;
}

/* On the pipes that the supervisor has, and another for stdin if there is to be one. */
static int run_on_pipes(struct exec *x, struct supervisor *s, bool with_input)
{
	auto_fd int in = -1, theirs = -1;
	struct pipe_ends *ours = &s->place[s->next].ours;
	int error = with_input ? pipe_make(&in, &theirs, false) : 0;

	if (!error)
		error = exec_run(x, s, theirs, &(struct exec_ends){in, ours->out, ours->err});
	if (error)
		return error;
	in = ours->out = ours->err = -1;
	return 0;
}

/* With the user filled in. Takes the supervisor, or puts an end to it. 0 or an errno. */
static int start_under(
	struct runner *r, const struct wire_msg *m, const struct prepared *p, struct supervisor *s)
{
	struct exec *x = exec_new(r, m);
	int error;

	if (!x) {
		error = errno;
	} else {
		prepare_fill(p, x->tty, s->job);
		error = x->tty ? run_on_tty(x, s, m)
			       : run_on_pipes(x, s, m->flags & WIRE_EXEC_STDIN);
		if (!error)
			return 0;
		channel_close(&x->ch);
	}
	supervise_drop(s);
	return error;
}

/* 0 or an errno, which is that of ret_stage. */
static int start(struct runner *r, const struct wire_msg *m, const struct prepared *p,
	enum wire_how *ret_stage)
{
	for (int tries = 0;; tries++) {
		struct supervisor *s = supervise_take(r, prepare_size(p));
		int error;

		*ret_stage = WIRE_NO_EXEC;
		if (!s)
			return errno;
		error = user_find(p->user, &s->job->user);
		if (error) {
			supervise_put_back(s);
			*ret_stage = WIRE_NO_USER;
			return error;
		}
		error = start_under(r, m, p, s);
		/* One at hand may have been killed a moment ago. */
		if (error != EPIPE || tries == TRIES_MAX)
			return error;
	}
}

static bool refuse(struct runner *r, uint32_t id, enum wire_how how, int error, const char *what)
{
	struct wire_msg m = {
		.type = WIRE_EXIT, .id = id, .how = (uint8_t)how, .code = (uint32_t)error};

	exec_answer(r, &m, what);
	return true;
}

bool exec_start(struct runner *r, const struct wire_msg *m, const struct frame *f)
{
	enum wire_how stage;
	struct prepared p;
	int error = prepare_parse(m, f, &p);

	if (error == EINVAL)
		return false;
	if (error)
		return refuse(r, m->id, WIRE_NO_EXEC, error, "command line");
	error = start(r, m, &p, &stage);
	if (error)
		return refuse(r, m->id, stage, error,
			stage == WIRE_NO_USER ? p.user : "cannot start a process");
	return true;
}
