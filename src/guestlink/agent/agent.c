#include "guestlink/agent/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guestlink/agent/common.h"
#include "guestlink/agent/script-output.h"
#include "guestlink/agent/run.h"
#include "guestlink/agent/script.h"
#include "guestlink/agent/windows.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/str.h"

enum {
	PIECE = 4 * 1024 * 1024, /* bytes of a file that one command reads or writes */
	ERRNO_BASE = 100,        /* the scripts exit with 100 + errno */
	ERRNO_LAST = 124,
};

static int give_output(const struct guest_io *io, int stream, const struct buf *data, struct err *e)
{
	return data->len ? io->output(io->arg, stream, buf_bytes(data), e) : 0;
}

/* Runs a command while it holds the turn. Gives the turn back before the client gets the output, as
 * the client may read slowly. */
static int run_alone(struct agent *a, const struct op *op, const struct agent_run *run,
	struct agent_result *ret, struct err *e)
{
	auto_turn struct turn *held = NULL;

	if (turn_take(&a->turn, op, e) < 0)
		return -1;
	held = &a->turn;
	return agent_run(a->q, op, run, ret, e);
}

static int agent_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct agent *a = agent_of(g);
	auto_buf struct buf input = {0};
	auto_agent_result struct agent_result r = {0};
	uint64_t most = agent_tail_max(a->q), tail = req->capture_max ? req->capture_max : most;
	struct agent_run run = {
		.user = req->user,
		.cwd = req->cwd,
		.argv = req->argv,
		.env = req->env,
		.tail_max = (size_t)(tail < most ? tail : most),
		.timeout = req->timeout,
	};

	if (req->tty)
		return err_set(e, ERR_UNSUPPORTED, "no terminal through the plain guest agent");
	if (req->input && agent_take_input(op, io, &input, e) < 0)
		return -1;
	run.input = buf_bytes(&input);
	if (run_alone(a, op, &run, &r, e) < 0 || give_output(io, WIRE_STDOUT, &r.out, e) < 0 ||
		give_output(io, WIRE_STDERR, &r.err, e) < 0)
		return -1;
	if (!req->capture_max &&
		(r.exit.stdout_bytes > r.out.len || r.exit.stderr_bytes > r.err.len))
		return err_set(e, ERR_LIMIT,
			"the command wrote more than passes through the plain guest agent (%llu "
			"bytes); only the end was kept",
			(unsigned long long)most);
	*ret = r.exit;
	return 0;
}

struct script {
	const char *text;
	const char *args[5]; /* NULL at the end */
	struct bytes input;
	size_t output_max;
};

static int fail_script(const struct agent_result *r, const struct guest_path *at, struct err *e)
{
	char words[400];
	size_t n = r->err.len;
	int code = r->exit.code;

	if (r->exit.stage != GUEST_RAN) {
		guest_fail(e, (uint32_t)r->exit.sys, at->path, r->exit.message);
		return -1;
	}
	if (code > ERRNO_BASE && code <= ERRNO_LAST)
		return guest_fail(e, (uint32_t)(code - ERRNO_BASE), at->path, "");
	while (n && buf_data(&r->err)[n - 1] == '\n')
		n--;
	str_escape((const char *)buf_data(&r->err), n, words, sizeof(words));
	return err_set(e, ERR_BACKEND, "%s", n ? words : "the guest's shell failed");
}

/* Runs a script as the user and in the directory of `at`; fails unless the script exits with 0. */
static int run_script(struct agent *a, const struct op *op, const struct guest_path *at,
	const struct script *script, struct agent_result *ret, struct err *e)
{
	auto_agent_result struct agent_result r = {0};
	const char *argv[5 + ARRAY_LEN(script->args)] = {"/bin/sh", "-c", script->text, "sh"};
	struct agent_run run = {
		.user = at->user,
		.cwd = at->cwd,
		.argv = argv,
		.input = script->input,
		.tail_max = script->output_max ? script->output_max : 4096,
	};

	for (size_t i = 0; i < ARRAY_LEN(script->args) && script->args[i]; i++)
		argv[4 + i] = script->args[i];
	if (run_alone(a, op, &run, &r, e) < 0)
		return -1;
	if (r.exit.stage != GUEST_RAN || r.exit.code)
		return fail_script(&r, at, e);
	if (ret) {
		*ret = r;
		r = (struct agent_result){0};
	}
	return 0;
}

static size_t piece_of(const struct agent *a)
{
	size_t most = agent_tail_max(a->q) - 4096;

	return most < PIECE ? most : PIECE;
}

static int agent_read(struct guest *g, const struct op *op, const struct guest_path *at,
	uint64_t max, const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct agent *a = agent_of(g);
	size_t piece = piece_of(a);
	uint64_t offset = 0;

	for (;;) {
		auto_agent_result struct agent_result r = {0};
		char at_text[24], count[24], head[64];
		struct script script = {.text = agent_script_read,
			.args = {at->path, at_text, count},
			.output_max = piece};
		uint64_t size;
		uint32_t mode;

		snprintf(at_text, sizeof(at_text), "%" PRIu64, offset);
		snprintf(count, sizeof(count), "%zu", piece);
		if (run_script(a, op, at, &script, &r, e) < 0)
			return -1;
		str_escape((const char *)buf_data(&r.err), r.err.len, head, sizeof(head));
		if (sscanf(head, "%" SCNu64 " %" SCNx32, &size, &mode) != 2)
			return err_set(e, ERR_UNAVAILABLE, "the guest sent no size of the file");
		if (max && (size > max || offset + r.out.len > max))
			return guest_fail(e, EFBIG, at->path, "");
		if (give_output(io, WIRE_BODY, &r.out, e) < 0)
			return -1;
		offset += r.out.len;
		if (r.out.len < piece) {
			*ret = (struct guest_stat){.size = offset, .mode = mode};
			return 0;
		}
	}
}

static int agent_write(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct agent *a = agent_of(g);
	char mode[16] = "";
	bool append = req->append;
	uint64_t total = 0;
	int ended;

	if (req->mode)
		snprintf(mode, sizeof(mode), "%o", req->mode);
	do {
		auto_buf struct buf piece = {0};
		struct script script = {
			.text = agent_script_write,
			.args = {req->at.path, mode, req->parents ? "1" : "0", append ? "1" : "0"},
		};

		ended = guest_collect(op, io, PIECE, &piece, e);
		if (ended < 0)
			return -1;
		script.input = buf_bytes(&piece);
		if (run_script(a, op, &req->at, &script, NULL, e) < 0)
			return -1;
		append = true;
		total += piece.len;
	} while (!ended);
	*ret = (struct guest_stat){.size = total, .mode = req->mode};
	return 0;
}

static int agent_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct agent *a = agent_of(g);
	auto_agent_result struct agent_result r = {0};
	struct script script = {
		.text = agent_script_list, .args = {at->path}, .output_max = agent_tail_max(a->q)};

	if (run_script(a, op, at, &script, &r, e) < 0)
		return -1;
	if (r.exit.stdout_bytes > r.out.len)
		return err_set(e, ERR_LIMIT, "too many files for the plain guest agent");
	return agent_parse_list(buf_bytes(&r.out), each, arg, e);
}

static int agent_mkdir(struct guest *g, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e)
{
	char text[16] = "";
	struct script script = {.text = agent_script_mkdir, .args = {at->path, text}};

	if (mode)
		snprintf(text, sizeof(text), "%o", mode);
	return run_script(agent_of(g), op, at, &script, NULL, e);
}

static int agent_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	struct script script = {.text = agent_script_symlink, .args = {at->path, target}};

	return run_script(agent_of(g), op, at, &script, NULL, e);
}

static const struct guest_ops agent_ops = {
	.exec = agent_exec,
	.read = agent_read,
	.write = agent_write,
	.list = agent_list,
	.mkdir = agent_mkdir,
	.symlink = agent_symlink,
	.free = agent_free,
	.stand_still = agent_stand_still,
};

int agent_open(struct qga *q, bool windows, struct guest **ret, struct err *e)
{
	return windows ? agent_windows_open(q, ret, e) : agent_new(&agent_ops, q, ret, e);
}
