#include "store/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

enum { READ_SIZE = 32 * 1024 };

struct running {
	const struct follow_req *req;
	struct proc proc;
	int out, err; /* our ends of the child's pipes */
	size_t logged;
	struct tool_output out_lines, err_lines;
};

static void running_free(struct running *r)
{
	proc_kill(&r->proc);
	auto_closep(&r->out);
	auto_closep(&r->err);
}

/* Failures are ignored: a build does not fail because of its log. */
static void log_add(struct running *r, const char *p, size_t n)
{
	static const char cut[] = "\n[moat: the log is cut here]\n";

	if (r->req->log_fd <= 0 || r->logged > r->req->log_max)
		return;
	r->logged += n;
	if (write(r->req->log_fd, p, n) < 0 || r->logged <= r->req->log_max)
		return;
	if (write(r->req->log_fd, cut, sizeof(cut) - 1) < 0)
		return;
}

/* Reads what there is; closes the fd at the end of file. */
static int take_output(struct running *r, int *fd, struct err *e)
{
	char part[READ_SIZE];
	ssize_t got = read(*fd, part, sizeof(part));

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, errno, "read");
	if (got == 0) {
		close(take_fd(fd));
		return 0;
	}
	if (fd == &r->out) {
		tool_output_add(&r->out_lines, part, (size_t)got, r->req->on_line, r->req->arg);
		return 0;
	}
	tool_output_add(&r->err_lines, part, (size_t)got, NULL, NULL);
	log_add(r, part, (size_t)got);
	return 0;
}

/* Opens the pipes; *ret_out and *ret_err are the child's ends. */
static int open_pipes(struct running *r, int *ret_out, int *ret_err, struct err *e)
{
	int out[2], err[2];

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	r->out = out[0];
	*ret_out = out[1];
	if (pipe2(err, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	r->err = err[0];
	*ret_err = err[1];
	return fd_set_nonblock(r->out, e) < 0 || fd_set_nonblock(r->err, e) < 0 ? -1 : 0;
}

static int start(struct running *r, struct err *e)
{
	struct proc_req child = r->req->proc;
	auto_fd int out = -1, err = -1;

	if (open_pipes(r, &out, &err, e) < 0)
		return -1;
	child.out_fd = out;
	child.err_fd = err;
	return proc_start(&child, &r->proc, e);
}

int follow_run(const struct op *op, const struct follow_req *req,
	char ret_last[TOOL_OUTPUT_LINE_MAX + 1], int *ret_code, struct err *e)
{
	__attribute__((cleanup(running_free))) struct running r = {
		.req = req, .proc = PROC_NONE, .out = -1, .err = -1};
	const char *last;

	if (start(&r, e) < 0)
		return -1;
	while (r.out >= 0 || r.err >= 0) {
		struct pollfd fds[] = {
			{.fd = r.out, .events = POLLIN}, {.fd = r.err, .events = POLLIN}};

		if (op_wait_fds(op, fds, 2, e) < 0)
			return -1;
		if (fds[0].revents && take_output(&r, &r.out, e) < 0)
			return -1;
		if (fds[1].revents && take_output(&r, &r.err, e) < 0)
			return -1;
	}
	if (proc_wait(op, &r.proc, ret_code, e) < 0)
		return -1;
	tool_output_end(&r.out_lines, req->on_line, req->arg);
	last = tool_output_end(&r.err_lines, NULL, NULL);
	str_escape(last, strlen(last), ret_last, TOOL_OUTPUT_LINE_MAX + 1);
	return 0;
}
