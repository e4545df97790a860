/*
 * How it works. A command goes to the agent as it is: the agent makes a command line of it and
 * looks for the program. What needs a shell (a directory, variables, commands that cmd itself has,
 * much input, directories to be made or listed) is a script of ours for cmd (wincmd.h), put into
 * the guest's directory for temporary files; each removes the one before it.
 */
#include "guest/agent-windows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "guest/agent-base.h"
#include "guest/wincmd.h"
#include "guest/wire.h"
#include "util/auto.h"
#include "util/str.h"

enum {
	KILL_S = 10,
	END_S = 20,
	PIECE = 4 * 1024 * 1024, /* of a file, before it is in place */
	OUTPUT_OWN = 1024 * 1024,
	NOT_RECOGNIZED = 9009, /* cmd's errorlevel for a program that it does not find */
	FILE_MODE = 0644,      /* Windows has none */
};

static int fail_unsupported(struct err *e, const char *what)
{
	return err_set(e, ERR_UNSUPPORTED, "%s: not in Windows guests", what);
}

static int check_user(const char *user, struct err *e)
{
	char safe[100];

	if (!user || strcasecmp(user, "SYSTEM") == 0 ||
		strcasecmp(user, "NT AUTHORITY\\SYSTEM") == 0)
		return 0;
	str_escape(user, strlen(user), safe, sizeof(safe));
	return err_set(e, ERR_UNSUPPORTED,
		"user %s: in Windows guests everything is done as SYSTEM, by the guest agent",
		safe);
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

struct ended {
	struct qga_exit x;
	bool timed_out;
};

static void ended_free(struct ended *d)
{
	qga_exit_free(&d->x);
}
#define auto_ended __attribute__((cleanup(ended_free)))

/* Runs it, with a timeout in seconds (0: none). Wants the turn held, as all below do. */
static int run(struct qga *q, const struct op *op, const struct qga_exec *start, double timeout,
	struct ended *ret, struct err *e)
{
	struct op part = op_within(op, timeout);
	struct err cause, late;
	int64_t pid;

	ret->timed_out = false;
	if (qga_exec_start(q, op, start, &pid, e) < 0)
		return -1;
	if (qga_exec_wait(q, &part, pid, qga_output_max(q), &ret->x, e) == 0)
		return 0;
	if (e->kind != ERR_TIMEOUT && e->kind != ERR_CANCELLED)
		return -1;
	cause = *e;
	if (kill_tree(q, pid, &late) < 0 || op_check(op, &late) < 0) {
		*e = cause;
		return -1;
	}
	ret->timed_out = true;
	part = op_within(op, END_S);
	return qga_exec_wait(q, &part, pid, qga_output_max(q), &ret->x, e);
}

static int make_id(char id[WINCMD_ID_LEN + 1], struct err *e)
{
	uint8_t random[WINCMD_ID_LEN / 2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, errno, "getrandom");
	str_hex(random, sizeof(random), id);
	return 0;
}

static void temp_path(const char *id, const char *ending, char path[64])
{
	snprintf(path, 64, WINCMD_TEMP "\\moat-%s.%s", id, ending);
}

/* Content as files of a size that the agent takes. */
static int put_pieces(struct agent *w, const struct op *op, const char *id, struct bytes content,
	unsigned *ret_pieces, struct err *e)
{
	size_t most = qga_write_max(w->q);
	unsigned n = 0;

	while (content.len) {
		struct bytes piece = {content.p, content.len < most ? content.len : most};
		char number[12], path[64];

		snprintf(number, sizeof(number), "%u", n++);
		temp_path(id, number, path);
		if (qga_file_write(w->q, op, path, piece, e) < 0)
			return -1;
		content.p += piece.len;
		content.len -= piece.len;
	}
	*ret_pieces = n;
	return 0;
}

static bool is_ascii(const struct buf *b)
{
	const uint8_t *p = buf_data(b);

	for (size_t i = 0; i < b->len; i++)
		if (p[i] >= 0x80)
			return false;
	return true;
}

/* Writes the script that the body makes; utf8: its output must be. */
static int put_script(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	bool utf8, char path[64], struct err *e)
{
	auto_buf struct buf text = {0};

	if (wincmd_begin(&text, *w->stale ? w->stale : NULL, utf8 || !is_ascii(body), e) < 0 ||
		buf_add(&text, buf_data(body), body->len, e) < 0)
		return -1;
	if (text.len > qga_write_max(w->q))
		return err_set(e, ERR_LIMIT,
			"the command and its variables are too long for a Windows guest: %zu bytes",
			text.len);
	temp_path(id, "cmd", path);
	if (qga_file_write(w->q, op, path, buf_bytes(&text), e) < 0)
		return err_wrap(e, "a script in the guest");
	snprintf(w->stale, sizeof(w->stale), "%s", id);
	return 0;
}

/* A script of our own, run to its end. What it could not do is an error about path. */
static int run_own(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	const char *path, struct qga_exit *ret, struct err *e)
{
	char script[64];
	const char *const argv[] = {"cmd.exe", "/d", "/c", script, NULL};
	struct qga_exec req = {.argv = argv, .output_max = OUTPUT_OWN};
	auto_qga_exit struct qga_exit x = {0};
	char words[300];

	if (put_script(w, op, id, body, ret != NULL, script, e) < 0 ||
		qga_exec(w->q, op, &req, &x, e) < 0)
		return -1;
	if (x.code > WINCMD_ERRNO && x.code < WINCMD_ERRNO + 100)
		return guest_fail(e, (uint32_t)(x.code - WINCMD_ERRNO), path, "");
	qga_exit_words(&x, words, sizeof(words));
	if (x.code)
		return err_set(e, ERR_BACKEND, "cmd in the guest: %s", words);
	if (x.out_cut)
		return err_set(e, ERR_LIMIT, "the guest agent cannot tell it all");
	if (ret) {
		*ret = x;
		x = (struct qga_exit){0};
	}
	return 0;
}

static int exec_script(struct agent *w, const struct op *op, const struct guest_exec *req,
	struct bytes input, char id[WINCMD_ID_LEN + 1], struct ended *ret, struct err *e)
{
	auto_buf struct buf body = {0};
	char script[64], file[64];
	const char *const argv[] = {"cmd.exe", "/d", "/c", script, NULL};
	struct qga_exec start = {.argv = argv, .input = input};
	unsigned pieces = 0;

	if (make_id(id, e) < 0)
		return -1;
	temp_path(id, "in", file);
	if (!qga_takes_input(w->q, input)) {
		if (put_pieces(w, op, id, input, &pieces, e) < 0 ||
			wincmd_join(&body, id, pieces, file, e) < 0)
			return -1;
		start.input = (struct bytes){0};
	}
	if (wincmd_exec(&body, id, req, pieces ? file : NULL, e) < 0 ||
		put_script(w, op, id, &body, false, script, e) < 0)
		return -1;
	return run(w->q, op, &start, req->timeout, ret, e);
}

static int no_program(const char *name, struct guest_exit *ret)
{
	char safe[200], why[256];

	str_escape(name, strlen(name), safe, sizeof(safe));
	snprintf(why, sizeof(why), "%s: No such file or directory", safe);
	guest_not_run(ret, GUEST_NO_EXEC, ENOENT, why);
	return 0;
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

static int tell(const struct guest_exec *req, const struct guest_io *io, const struct ended *d,
	struct guest_exit *ret, struct err *e)
{
	if (d->x.out_cut || d->x.err_cut)
		return err_set(e, ERR_LIMIT, "the command wrote more than the guest agent keeps");
	if (give_output(io, WIRE_STDOUT, &d->x.out, req->capture_max, e) < 0 ||
		give_output(io, WIRE_STDERR, &d->x.err, req->capture_max, e) < 0)
		return -1;
	*ret = (struct guest_exit){
		.code = d->timed_out ? 124 : d->x.code,
		.signal = d->x.signal,
		.timed_out = d->timed_out,
		.stdout_bytes = d->x.out.len,
		.stderr_bytes = d->x.err.len,
	};
	return 0;
}

static int windows_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_turn struct turn *held = NULL;
	auto_ended struct ended d = {0};
	auto_buf struct buf input = {0};
	struct qga_exec start = {.argv = req->argv};
	bool builtin = wincmd_is_builtin(req->argv[0]), script;
	char id[WINCMD_ID_LEN + 1] = "";
	int rc;

	if (req->tty)
		return fail_unsupported(e, "a terminal");
	if (check_user(req->user, e) < 0 ||
		(req->input && agent_take_input(op, io, &input, e) < 0) ||
		turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	start.input = buf_bytes(&input);
	script = builtin || req->cwd || (req->env && *req->env) ||
		 !qga_takes_input(w->q, start.input);
	rc = script ? exec_script(w, op, req, start.input, id, &d, e)
		    : run(w->q, op, &start, req->timeout, &d, e);
	if (rc < 0 && e->kind == ERR_BACKEND && strstr(e->msg, "Failed to execute child process"))
		return no_program(req->argv[0], ret);
	if (rc < 0)
		return -1;
	if (script && req->cwd && wincmd_parse_not_run(&d.x.err, id, req->cwd, ret))
		return 0;
	if (script && !builtin && !d.timed_out && d.x.code == NOT_RECOGNIZED)
		return no_program(req->argv[0], ret);
	return tell(req, io, &d, ret, e);
}

/* Why a file could not be opened, by the agent's own words. */
static int explain(struct agent *w, const struct op *op, const char *path, struct err *e)
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
		{"used by another process", EBUSY},
		{"syntax is incorrect", EINVAL}, /* The filename, directory name... */
		{"not enough space on the disk", ENOSPC},
	};
	auto_buf struct buf body = {0};
	char id[WINCMD_ID_LEN + 1];
	struct err late;
	size_t i = 0;

	while (e->kind == ERR_BACKEND && i < ARRAY_LEN(known) && !strstr(e->msg, known[i].words))
		i++;
	if (e->kind != ERR_BACKEND || i == ARRAY_LEN(known))
		return -1;
	guest_fail(e, (uint32_t)known[i].eno, path, "");
	/* Windows denies access to a directory as if it were somebody else's file. */
	if (e->sys == EACCES && make_id(id, &late) == 0 && wincmd_why(&body, path, &late) == 0 &&
		run_own(w, op, id, &body, path, NULL, &late) < 0 && late.sys == EISDIR)
		*e = late;
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
	auto_free char *path = NULL;
	struct body body = {.io = io};

	if (check_user(at->user, e) < 0 || wincmd_full_path(at->cwd, at->path, &path, e) < 0 ||
		turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	if (qga_file_read(w->q, op, path, max, give_body, &body, e) < 0)
		return explain(w, op, path, e);
	*ret = (struct guest_stat){.size = body.size, .mode = FILE_MODE};
	return 0;
}

static int make_dir(struct agent *w, const struct op *op, const char *path, struct err *e)
{
	auto_buf struct buf body = {0};
	char id[WINCMD_ID_LEN + 1];

	if (make_id(id, e) < 0 || wincmd_mkdir(&body, path, e) < 0)
		return -1;
	return run_own(w, op, id, &body, path, NULL, e);
}

static int make_parent(struct agent *w, const struct op *op, const char *path, struct err *e)
{
	const char *end = strrchr(path, '\\');
	auto_free char *dir = end ? strndup(path, (size_t)(end - path)) : NULL;

	if (!end)
		return -1;
	return dir ? make_dir(w, op, dir, e) : err_oom(e);
}

/* The first bytes of a file: what was in it is gone. */
static int put_first(struct agent *w, const struct op *op, const char *path, bool parents,
	struct bytes content, struct err *e)
{
	if (qga_file_write(w->q, op, path, content, e) == 0)
		return 0;
	explain(w, op, path, e);
	if (!parents || e->sys != ENOENT)
		return -1;
	if (make_parent(w, op, path, e) < 0)
		return -1;
	return qga_file_write(w->q, op, path, content, e) < 0 ? explain(w, op, path, e) : 0;
}

static int put_more(
	struct agent *w, const struct op *op, const char *path, struct bytes content, struct err *e)
{
	auto_buf struct buf body = {0};
	char id[WINCMD_ID_LEN + 1];
	unsigned pieces;

	if (!content.len)
		return 0;
	if (make_id(id, e) < 0 || put_pieces(w, op, id, content, &pieces, e) < 0 ||
		wincmd_join(&body, id, pieces, path, e) < 0)
		return -1;
	return run_own(w, op, id, &body, path, NULL, e);
}

static int windows_write(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_free char *path = NULL;
	size_t most = qga_write_max(w->q);
	bool first = !req->append;
	uint64_t total = 0;
	int ended;

	if (check_user(req->at.user, e) < 0 ||
		wincmd_full_path(req->at.cwd, req->at.path, &path, e) < 0)
		return -1;
	do {
		auto_turn struct turn *held = NULL;
		auto_buf struct buf content = {0};
		struct bytes rest;

		/* Not while holding the turn: the client may be slow. */
		ended = guest_collect(op, io, PIECE, &content, e);
		if (ended < 0 || turn_take(&w->turn, op, e) < 0)
			return -1;
		held = &w->turn;
		rest = buf_bytes(&content);
		if (first) {
			struct bytes head = {rest.p, rest.len < most ? rest.len : most};

			if (put_first(w, op, path, req->parents, head, e) < 0)
				return -1;
			rest.p += head.len;
			rest.len -= head.len;
		}
		if (put_more(w, op, path, rest, e) < 0)
			return -1;
		first = false;
		total += content.len;
	} while (!ended);
	*ret = (struct guest_stat){.size = total, .mode = FILE_MODE};
	return 0;
}

static int windows_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct agent *w = agent_of(g);
	auto_qga_exit struct qga_exit x = {0};
	auto_buf struct buf body = {0};
	auto_free char *path = NULL;
	char id[WINCMD_ID_LEN + 1];

	if (check_user(at->user, e) < 0 || wincmd_full_path(at->cwd, at->path, &path, e) < 0 ||
		make_id(id, e) < 0 || wincmd_list(&body, path, e) < 0)
		return -1;
	{
		auto_turn struct turn *held = NULL;

		if (turn_take(&w->turn, op, e) < 0)
			return -1;
		held = &w->turn;
		if (run_own(w, op, id, &body, path, &x, e) < 0)
			return -1;
	}
	return wincmd_parse_list(buf_bytes(&x.out), each, arg, e);
}

static int windows_mkdir(struct guest *g, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e)
{
	struct agent *w = agent_of(g);
	auto_turn struct turn *held = NULL;
	auto_free char *path = NULL;

	(void)mode; /* Windows has none */
	if (check_user(at->user, e) < 0 || wincmd_full_path(at->cwd, at->path, &path, e) < 0 ||
		turn_take(&w->turn, op, e) < 0)
		return -1;
	held = &w->turn;
	return make_dir(w, op, path, e);
}

static int windows_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	(void)g, (void)op, (void)at, (void)target;
	return fail_unsupported(e, "links");
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
