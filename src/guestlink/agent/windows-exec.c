/*
 * How it works: the agent keeps a command's output until we fetch it, and a transport that fetches
 * more than it can pass on loses all of it. So a command runs in a script that writes its output to
 * two files, and then prints the files' sizes and those files that are short. We read the other
 * files through the agent, and also files that came out shorter than their size: `type`, cmd's only
 * means to print a file, changes UTF-16 text. A command that cmd cannot run (a line break in an
 * argument, a very long command) goes to the agent directly; its output is limited to what the
 * transport passes on.
 */
#include "guestlink/agent/windows-exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guestlink/agent/windows-script.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/str.h"

enum {
	KILL_S = 10,
	END_S = 20,
	NOT_RECOGNIZED = 9009,   /* cmd's exit code for a program that it does not find */
	READ_AT_ONCE = 16 << 20, /* every server delivers this much of a file; not every server
				    delivers what follows */
};

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

/* A command that runs in a script. */
struct job {
	struct agent *w;
	const struct guest_exec *req;
	char id[WINCMD_ID_LEN + 1];
	char script[WINCMD_PATH_MAX]; /* empty: the command runs without a script */
	struct qga_exit x;
	bool timed_out;
};

static void job_done(struct job *j)
{
	qga_exit_free(&j->x);
}
#define auto_job __attribute__((cleanup(job_done)))

static int run(struct job *j, const struct op *op, struct bytes input, struct err *e)
{
	const char *const shell[] = {"cmd.exe", "/d", "/c", j->script, NULL};
	struct qga_exec start = {.argv = *j->script ? shell : j->req->argv, .input = input};
	struct op part = op_within(op, j->req->timeout);
	struct qga *q = j->w->q;
	struct err cause, late;
	int64_t pid;

	if (qga_exec_start(q, op, &start, &pid, e) < 0)
		return -1;
	if (qga_exec_wait(q, &part, pid, qga_output_max(q), &j->x, e) == 0)
		return 0;
	if (e->kind != ERR_TIMEOUT && e->kind != ERR_CANCELLED)
		return -1;
	cause = *e;
	if (kill_tree(q, pid, &late) < 0 || op_check(op, &late) < 0) {
		*e = cause;
		return -1;
	}
	j->timed_out = true;
	part = op_within(op, END_S);
	return qga_exec_wait(q, &part, pid, qga_output_max(q), &j->x, e);
}

/* Puts the script into the guest. *input: the part of stdin that is not in a file, for the
 * agent. */
static int prepare(struct job *j, const struct op *op, struct bytes *input, struct err *e)
{
	auto_buf struct buf body = {0};
	char file[WINCMD_PATH_MAX];
	unsigned pieces = 0;

	wincmd_temp_path(j->id, "in", file);
	if (!qga_takes_input(j->w->q, *input)) {
		if (win_put_pieces(j->w, op, j->id, *input, &pieces, e) < 0 ||
			wincmd_join(&body, j->id, pieces, file, e) < 0)
			return -1;
		*input = (struct bytes){0};
	}
	if (wincmd_exec(&body, j->id, j->req, pieces ? file : NULL, e) < 0)
		return -1;
	return win_put_script(j->w, op, j->id, &body, false, j->script, e);
}

static bool needs_script(const struct job *j, struct bytes input)
{
	return j->req->cwd || (j->req->env && *j->req->env) || wincmd_is_builtin(j->req->argv[0]) ||
	       !qga_takes_input(j->w->q, input);
}

/* One of the command's two streams, which goes to the client. */
struct stream {
	const struct guest_io *io;
	int number;
	uint64_t tail_max; /* 0: keep all of it */
	uint64_t bytes;
	struct buf tail;
};

static void stream_done(struct stream *s)
{
	buf_free(&s->tail);
}
#define auto_stream __attribute__((cleanup(stream_done)))

static int add_output(void *arg, struct bytes piece, struct err *e)
{
	struct stream *s = arg;

	s->bytes += piece.len;
	if (!s->tail_max)
		return piece.len ? s->io->output(s->io->arg, s->number, piece, e) : 0;
	if (buf_add(&s->tail, piece.p, piece.len, e) < 0)
		return -1;
	if (s->tail.len > s->tail_max)
		buf_drop(&s->tail, s->tail.len - (size_t)s->tail_max);
	return 0;
}

/* Adds a stream's content from the script's file. If the script was killed early, there is
 * no file. */
static int add_file(struct stream *s, struct job *j, const struct op *op, const char *ending,
	uint64_t size, struct err *e)
{
	bool long_tail = s->tail_max && size > READ_AT_ONCE && size > s->tail_max;
	uint64_t from = long_tail ? size - s->tail_max : 0;
	char path[WINCMD_PATH_MAX];

	wincmd_temp_path(j->id, ending, path);
	s->bytes += from;
	if (qga_file_read(j->w->q, op, path, from, 0, add_output, s, e) == 0)
		return 0;
	return qga_says_errno(e) == ENOENT ? 0 : err_wrap(e, "output of the command");
}

static int give_stream(struct stream *s, struct job *j, const struct op *op,
	const struct wincmd_end *end, struct err *e)
{
	bool is_out = s->number == WIRE_STDOUT;
	const struct buf *shown = is_out ? &j->x.out : &j->x.err;
	uint64_t size = end->sizes[is_out ? 0 : 1];
	bool all_shown = end->has_sizes && shown->len == size;

	/* Without sizes the script did not reach its end: it was killed, or the command replaced it
	 * and printed something itself. */
	if ((all_shown || !end->has_sizes) && add_output(s, buf_bytes(shown), e) < 0)
		return -1;
	if (!all_shown && add_file(s, j, op, is_out ? "out" : "err", size, e) < 0)
		return -1;
	return s->tail.len ? s->io->output(s->io->arg, s->number, buf_bytes(&s->tail), e) : 0;
}

static int not_run(struct guest_exit *ret, enum guest_stage stage, int eno, const char *what)
{
	char safe[200], why[256];

	str_escape(what, strlen(what), safe, sizeof(safe));
	snprintf(why, sizeof(why), "%s: %s", safe,
		eno == ENOENT ? "No such file or directory" : "Not a directory");
	guest_not_run(ret, stage, (uint32_t)eno, why);
	return 0;
}

static int tell(struct job *j, const struct op *op, const struct guest_io *io,
	struct guest_exit *ret, struct err *e)
{
	const struct guest_exec *req = j->req;
	struct wincmd_end end = {.has_sizes = true, .sizes = {j->x.out.len, j->x.err.len}};
	auto_stream struct stream out = {
		.io = io, .number = WIRE_STDOUT, .tail_max = req->capture_max};
	auto_stream struct stream err = {
		.io = io, .number = WIRE_STDERR, .tail_max = req->capture_max};

	if (j->x.out_cut || j->x.err_cut)
		return err_set(e, ERR_LIMIT, "the command wrote more than the guest agent keeps");
	if (*j->script)
		wincmd_parse_end(&j->x.err, j->id, &end);
	if (end.no_cwd)
		return not_run(ret, GUEST_NO_CWD, end.no_cwd, req->cwd);
	if (end.no_program || (*j->script && !j->timed_out && j->x.code == NOT_RECOGNIZED))
		return not_run(ret, GUEST_NO_EXEC, ENOENT, req->argv[0]);
	if (give_stream(&out, j, op, &end, e) < 0 || give_stream(&err, j, op, &end, e) < 0)
		return -1;
	*ret = (struct guest_exit){
		.code = j->timed_out ? 124 : j->x.code,
		.signal = j->x.signal,
		.timed_out = j->timed_out,
		.stdout_bytes = out.bytes,
		.stderr_bytes = err.bytes,
	};
	return 0;
}

int agent_winexec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	auto_job struct job j = {.w = agent_of(g), .req = req};
	auto_turn struct turn *held = NULL;
	auto_buf struct buf given = {0};
	struct bytes input;

	if (req->tty)
		return err_set(e, ERR_UNSUPPORTED, "a terminal: not in Windows guests");
	if (win_check_user(req->user, e) < 0 ||
		(req->input && agent_take_input(op, io, &given, e) < 0) ||
		win_make_id(j.id, e) < 0 || turn_take(&j.w->turn, op, e) < 0)
		return -1;
	held = &j.w->turn;
	input = buf_bytes(&given);
	if (prepare(&j, op, &input, e) < 0 &&
		(needs_script(&j, buf_bytes(&given)) ||
			(e->kind != ERR_UNSUPPORTED && e->kind != ERR_LIMIT)))
		return -1;
	if (run(&j, op, input, e) < 0) {
		if (qga_says_no_program(e))
			return not_run(ret, GUEST_NO_EXEC, ENOENT, req->argv[0]);
		return -1;
	}
	return tell(&j, op, io, ret, e);
}
