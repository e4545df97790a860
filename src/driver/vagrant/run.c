#include "driver/vagrant/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/vagrant/env.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/thread/lock.h"
#include "util/system/guard.h"
#include "util/system/proc.h"
#include "util/str.h"

enum {
	STDERR_KEPT = 16 * 1024,
	PIECE = 16 * 1024,
};

/* One running process of Vagrant. */
struct child {
	struct vagrant_dir *dir;
	const struct vagrant_run *run;
	struct vagrant_report *report;
	struct proc proc;
	int out, err; /* -1 at their end */
	bool skip;    /* until the next newline: the line is too long */
	struct buf line, complaint;
};

static void child_free(struct child *c)
{
	proc_kill(&c->proc);
	if (c->out >= 0)
		close(c->out);
	if (c->err >= 0)
		close(c->err);
	buf_free(&c->line);
	buf_free(&c->complaint);
}

static int start(struct child *c, struct err *e)
{
	auto_strv struct strv argv = {0};
	int out[2] = {-1, -1}, err[2] = {-1, -1}, rc = -1;
	struct proc_req req = {.env = (const char *const *)c->dir->env.v,
		.cwd = c->dir->root,
		.guard = c->dir->guard,
		.guard_gentle = true};

	strv_add(&argv, "vagrant");
	for (const char *const *word = c->run->argv; *word; word++)
		strv_add(&argv, *word);
	strv_add(&argv, "--machine-readable");
	if (strv_check(&argv, e) < 0)
		return -1;
	req.argv = (const char *const *)argv.v;
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) {
		err_sys(e, errno, "pipe");
	} else {
		req.out_fd = out[1];
		req.err_fd = err[1];
		rc = proc_start(&req, &c->proc, e);
	}
	if (out[1] >= 0)
		close(out[1]);
	if (err[1] >= 0)
		close(err[1]);
	c->out = out[0];
	c->err = err[0];
	if (rc < 0)
		return -1;
	return fd_set_nonblock(c->out, e) < 0 ? -1 : fd_set_nonblock(c->err, e);
}

static void log_bytes(struct vagrant_dir *d, struct bytes b)
{
	auto_unlock struct lock *held = lock_take(&d->log_mu);

	caplog_add(&d->log, b);
}

static void take_lines(struct child *c)
{
	uint8_t *end;

	while (c->line.len && (end = memchr(buf_data(&c->line), '\n', c->line.len))) {
		char *line = (char *)buf_data(&c->line);
		size_t len = (size_t)(end - buf_data(&c->line)) + 1;

		*end = 0;
		if (!c->skip && strlen(line) == len - 1) {
			vagrant_report_line(c->report, line);
			if (c->run->news)
				c->run->news(c->run->arg, c->report);
		}
		c->skip = false;
		buf_drop(&c->line, len);
	}
	if (c->line.len > VAGRANT_LINE_MAX) {
		c->skip = true;
		buf_drop(&c->line, c->line.len);
	}
}

/* Reads what there is. 1: something; 0: nothing now, or the end. */
static int drain(struct child *c, int *fd, struct buf *into, struct err *e)
{
	uint8_t *room = buf_room(into, PIECE);
	ssize_t got;

	if (!room)
		return err_oom(e);
	got = read(*fd, room, PIECE);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, errno, "read");
	if (got == 0) {
		close(*fd);
		*fd = -1;
		return 0;
	}
	log_bytes(c->dir, (struct bytes){room, (size_t)got});
	buf_grew(into, (size_t)got);
	return 1;
}

static int drain_all(struct child *c, struct err *e)
{
	int some = 1, more;

	while (some > 0) {
		some = 0;
		more = c->out >= 0 ? drain(c, &c->out, &c->line, e) : 0;
		if (more < 0)
			return -1;
		some |= more;
		take_lines(c);
		more = c->err >= 0 ? drain(c, &c->err, &c->complaint, e) : 0;
		if (more < 0)
			return -1;
		some |= more;
		if (c->complaint.len > 2 * STDERR_KEPT)
			buf_drop(&c->complaint, c->complaint.len - STDERR_KEPT);
	}
	return 0;
}

/*
 * Reads its output until it has ended. Its own end counts, not that of its output: a hypervisor
 * that it started may hold the pipes open as long as the machine lives.
 */
static int follow(struct child *c, const struct op *op, int *ret_code, struct err *e)
{
	for (;;) {
		struct pollfd fds[] = {{.fd = c->proc.pidfd, .events = POLLIN},
			{.fd = c->out, .events = POLLIN}, {.fd = c->err, .events = POLLIN}};

		if (op_wait_fds(op, fds, ARRAY_LEN(fds), e) < 0 || drain_all(c, e) < 0)
			return -1;
		if (!fds[0].revents)
			continue;
		if (drain_all(c, e) < 0)
			return -1;
		return proc_wait(op, &c->proc, ret_code, e);
	}
}

/* The op has ended: an interrupt makes Vagrant undo what it was making. A second one would not. */
static void interrupt(struct child *c)
{
	struct op grace = op_for_cleanup(c->run->interrupt_grace);
	struct err ignored;
	int code;

	if (c->run->interrupt_grace <= 0 || c->proc.pid < 0)
		return;
	proc_interrupt(&c->proc);
	follow(c, &grace, &code, &ignored);
}

static int judge(struct child *c, int code, struct err *e)
{
	auto_free char *text = NULL;

	if (code == 0)
		return 0;
	text = buf_take_str(&c->complaint);
	if (!text)
		return err_oom(e);
	if (code == GUARD_NOT_RUN)
		return err_set(e, ERR_UNSUPPORTED,
			"there is no vagrant in the PATH of whoever asked; see `moat doctor "
			"vagrant`");
	return vagrant_report_fail(c->report, code, text, c->run->what, e);
}

int vagrant_run(struct vagrant_dir *d, const struct op *op, const struct vagrant_run *run,
	struct vagrant_report *report, struct err *e)
{
	__attribute__((cleanup(child_free))) struct child c = {
		.dir = d, .run = run, .report = report, .proc = PROC_NONE, .out = -1, .err = -1};
	int code;

	*report = (struct vagrant_report){0};
	if (op_check(op, e) < 0 || start(&c, e) < 0)
		return err_wrap(e, "%s", run->what);
	if (follow(&c, op, &code, e) < 0) {
		interrupt(&c);
		return err_wrap(e, "%s", run->what);
	}
	return judge(&c, code, e);
}
