/* start.c - from an EXEC frame to a running command. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/exec.h"
#include "runner/prepare.h"
#include "runner/pty.h"
#include "runner/supervise.h"
#include "util/auto.h"

/* Ours and the command's ends of its stdio; closed by scope unless handed on. */
struct stdio {
	struct exec_pipes ours, theirs;
};

static void close_pipes(struct exec_pipes *p)
{
	auto_closep(&p->in);
	auto_closep(&p->out);
	auto_closep(&p->err);
}

static void stdio_close(struct stdio *s)
{
	close_pipes(&s->ours);
	close_pipes(&s->theirs);
}

#define auto_stdio __attribute__((cleanup(stdio_close)))

/* Only our end is nonblocking: the command expects nothing of the kind. */
static int make_pipe(int *ours, int *theirs, bool we_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return errno;
	*ours = fds[we_read ? 0 : 1];
	*theirs = fds[we_read ? 1 : 0];
	return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

static int open_pipes(struct stdio *s, bool with_input)
{
	int error = make_pipe(&s->ours.out, &s->theirs.out, true);

	if (!error)
		error = make_pipe(&s->ours.err, &s->theirs.err, true);
	if (error)
		return error;
	if (with_input)
		return make_pipe(&s->ours.in, &s->theirs.in, false);
	s->theirs.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return s->theirs.in < 0 ? errno : 0;
}

/* Two fds for the master, so that its directions are watched separately. */
static int open_tty(struct stdio *s, const struct wire_msg *m, uid_t uid)
{
	int error = pty_open(uid, &s->ours.in, &s->theirs.in);

	if (error)
		return error;
	pty_resize(s->ours.in, m->rows, m->cols);
	s->ours.out = fcntl(s->ours.in, F_DUPFD_CLOEXEC, 3);
	s->theirs.out = fcntl(s->theirs.in, F_DUPFD_CLOEXEC, 3);
	s->theirs.err = fcntl(s->theirs.in, F_DUPFD_CLOEXEC, 3);
	return s->ours.out < 0 || s->theirs.out < 0 || s->theirs.err < 0 ? errno : 0;
}

static void name(struct exec *x, const struct prepared *p)
{
	snprintf(x->user, sizeof(x->user), "%s", p->user);
	snprintf(x->cwd, sizeof(x->cwd), "%s", p->cwd[0] ? p->cwd : "/");
	snprintf(x->command, sizeof(x->command), "%s", p->argv[0]);
}

static int launch(
	struct runner *r, const struct wire_msg *m, struct prepared *p, const struct user *user)
{
	auto_stdio struct stdio stdio = {{-1, -1, -1}, {-1, -1, -1}};
	bool tty = m->flags & WIRE_EXEC_PTY;
	int error = tty ? open_tty(&stdio, m, user->uid)
			: open_pipes(&stdio, m->flags & WIRE_EXEC_STDIN);
	int reports, orders;
	struct exec *x;

	if (!error)
		error = prepare_environment(p, user, tty);
	if (error)
		return error;
	x = exec_new(r, m, &stdio.ours);
	if (!x)
		return errno;
	stdio.ours = (struct exec_pipes){-1, -1, -1}; /* the channel's now */
	name(x, p);
	error = supervise(&(struct launch){.argv = p->argv,
				  .env = p->env,
				  .strings = p->strings,
				  .cwd = p->cwd,
				  .user = user,
				  .in = stdio.theirs.in,
				  .out = stdio.theirs.out,
				  .err = stdio.theirs.err,
				  .tty = tty},
		&reports, &orders);
	if (error) {
		x->ch.ops->release(&x->ch);
		channel_close(&x->ch);
		return error;
	}
	exec_attend(x, reports, orders);
	return 0;
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
	__attribute__((cleanup(prepare_free))) struct prepared p = {0};
	struct user user;
	int error = prepare_parse(m, f, &p);

	if (error == EINVAL)
		return false;
	if (error)
		return refuse(r, m->id, WIRE_NO_EXEC, error, "command line");
	error = user_find(p.user, &user);
	if (error)
		return refuse(r, m->id, WIRE_NO_USER, error, p.user);
	error = launch(r, m, &p, &user);
	if (error)
		return refuse(r, m->id, WIRE_NO_EXEC, error, "cannot start a process");
	return true;
}
