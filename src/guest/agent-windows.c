#include "guest/agent-windows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guest/agent-base.h"
#include "guest/wire.h"
#include "util/auto.h"

enum { KILL_S = 10, END_S = 20 };

static int fail_unsupported(struct err *e, const char *what)
{
	return err_set(e, ERR_UNSUPPORTED, "%s: not in Windows guests", what);
}

static int kill_tree(struct qga *q, int64_t pid, struct err *e)
{
	struct op op = op_for_cleanup(KILL_S);
	char number[24];
	const char *const argv[] = {"taskkill.exe", "/F", "/T", "/PID", number, NULL};
	struct qga_exec req = {.argv = argv, .output_max = 64 * 1024};
	auto_qga_exit struct qga_exit x = {0};

	snprintf(number, sizeof(number), "%lld", (long long)pid);
	return qga_exec(q, &op, &req, &x, e);
}

static int run(struct qga *q, const struct op *op, const struct guest_exec *req, struct bytes input,
	struct qga_exit *ret, bool *ret_timed_out, struct err *e)
{
	struct qga_exec start = {.argv = req->argv, .input = input};
	struct op part = op_within(op, req->timeout);
	struct err cause, late;
	int64_t pid;

	*ret_timed_out = false;
	if (qga_exec_start(q, op, &start, &pid, e) < 0)
		return -1;
	if (qga_exec_wait(q, &part, pid, qga_output_max(q), ret, e) == 0)
		return 0;
	if (e->kind != ERR_TIMEOUT && e->kind != ERR_CANCELLED)
		return -1;
	cause = *e;
	if (kill_tree(q, pid, &late) < 0 || op_check(op, &late) < 0) {
		*e = cause;
		return -1;
	}
	*ret_timed_out = true;
	part = op_within(op, END_S);
	return qga_exec_wait(q, &part, pid, qga_output_max(q), ret, e);
}

/* The agent kept the beginning; with a cap the end of that is what was asked for. */
static int give_output(
	const struct guest_io *io, int stream, const struct buf *data, uint64_t cap, struct err *e)
{
	struct bytes tail = buf_bytes(data);

	if (cap && tail.len > cap) {
		tail.p += tail.len - cap;
		tail.len = cap;
	}
	return tail.len ? io->output(io->arg, stream, tail, e) : 0;
}

static int windows_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_turn struct turn *held = NULL;
	auto_qga_exit struct qga_exit x = {0};
	auto_buf struct buf input = {0};
	bool timed_out;

	if (req->tty || req->user || req->cwd || (req->env && *req->env))
		return fail_unsupported(e, "terminal, user, directory, environment");
	if (req->input && agent_take_input(op, io, &input, e) < 0)
		return -1;
	if (turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	if (run(w->q, op, req, buf_bytes(&input), &x, &timed_out, e) < 0)
		return -1;
	if (x.out_cut || x.err_cut)
		return err_set(e, ERR_LIMIT, "the command wrote more than the guest agent keeps");
	if (give_output(io, WIRE_STDOUT, &x.out, req->capture_max, e) < 0 ||
		give_output(io, WIRE_STDERR, &x.err, req->capture_max, e) < 0)
		return -1;
	*ret = (struct guest_exit){
		.code = timed_out ? 124 : x.code,
		.signal = x.signal,
		.timed_out = timed_out,
		.stdout_bytes = x.out.len,
		.stderr_bytes = x.err.len,
	};
	return 0;
}

/* The agent's words are all there is. */
static int explain(struct err *e, const char *path)
{
	static const struct {
		const char *words;
		int eno;
	} known[] = {
		{"No such file or directory", ENOENT},
		{"cannot find the", ENOENT}, /* ...path specified, ...file specified */
		{"Permission denied", EACCES},
		{"Access is denied", EACCES},
		{"Is a directory", EISDIR},
	};

	for (size_t i = 0; e->kind == ERR_BACKEND && i < ARRAY_LEN(known); i++)
		if (strstr(e->msg, known[i].words))
			return guest_fail(e, (uint32_t)known[i].eno, path, "");
	return -1;
}

struct body {
	const struct guest_io *io;
	uint64_t size;
};

static int give_body(void *arg, struct bytes piece, struct err *e)
{
	struct body *body = arg;

	body->size += piece.len;
	return body->io->output(body->io->arg, WIRE_BODY, piece, e);
}

static int windows_read(struct guest *g, const struct op *op, const struct guest_path *at,
	uint64_t max, const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_turn struct turn *held = NULL;
	struct body body = {.io = io};

	if (at->user || at->cwd)
		return fail_unsupported(e, "user, directory");
	if (turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	if (qga_file_read(w->q, op, at->path, max, give_body, &body, e) < 0)
		return explain(e, at->path);
	*ret = (struct guest_stat){.size = body.size};
	return 0;
}

static int windows_write(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_turn struct turn *held = NULL;
	auto_buf struct buf content = {0};

	if (req->at.user || req->at.cwd || req->append)
		return fail_unsupported(e, "user, directory, append");
	if (agent_take_input(op, io, &content, e) < 0 || turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	if (qga_file_write(w->q, op, req->at.path, buf_bytes(&content), e) < 0)
		return explain(e, req->at.path);
	*ret = (struct guest_stat){.size = content.len};
	return 0;
}

static int windows_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	(void)g, (void)op, (void)at, (void)each, (void)arg;
	return fail_unsupported(e, "list");
}

static int windows_mkdir(struct guest *g, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e)
{
	(void)g, (void)op, (void)at, (void)mode;
	return fail_unsupported(e, "mkdir");
}

static int windows_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	(void)g, (void)op, (void)at, (void)target;
	return fail_unsupported(e, "symlink");
}

static const struct guest_ops windows_ops = {
	.name = "agent",
	.exec = windows_exec,
	.read = windows_read,
	.write = windows_write,
	.list = windows_list,
	.mkdir = windows_mkdir,
	.symlink = windows_symlink,
	.free = agent_free,
};

int agent_windows_open(struct qga *q, struct guest **ret, struct err *e)
{
	return agent_new(&windows_ops, q, ret, e);
}
