/*
 * How an operation works. It has a random id. agent/exec starts `moat-guest once ID`, with the
 * request in its stdin, or in files if that is too much; agent/exec-status then gives what it
 * printed. If a call or an answer is lost, the same command with the same id can be started again:
 * the guest does not do it twice, but prints the result of the first time. Ids whose results we
 * have are named in the next command, so that the guest can forget them.
 *
 * Polls. Most commands are over before the answer to agent/exec arrives. So the time of the first
 * poll is learned from the last commands; after that, polls back off.
 */
#include "driver/proxmox/guest/runner.h"

#include <stdio.h>
#include <string.h>

#include "wire/ascii.h"
#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/guest/install.h"
#include "util/auto.h"
#include "util/thread/turn.h"
#include "wire/base64.h"
#include "util/thread/lock.h"
#include "util/thread/parallel.h"
#include "util/str.h"
#include "util/strv.h"

enum {
	OLD_MAX = 8,    /* results to be forgotten with the next command */
	TRIES = 6,      /* of a call whose fate is unknown */
	PARTS_MAX = 64, /* of a result: 256 MiB */
	KILL_S = 30,
	OVERDUE_S = 60, /* after a command's own timeout */
};
#define AGENT_PATIENCE_S 90.0 /* for an agent that has answered before, and perhaps restarts */
/* A poll that comes too early costs one call: a longer wait would not pay. */
#define FIRST_POLL_MAX_S 0.1
#define EARLIER_S        0.004
#define LATER_S          0.03
#define SECOND_POLL_S    0.04

struct pve_runner {
	struct pve_agent *agent;
	const struct runners *runners;
	struct turn installing;
	struct lock mu;
	char *path; /* in the guest; NULL: not installed */
	char old[OLD_MAX][ASCII_ID_MAX + 1];
	unsigned n_old;
	double first_poll; /* seconds after the answer to agent/exec */
};

int pve_runner_new(
	struct pve_agent *a, const struct runners *runners, struct pve_runner **ret, struct err *e)
{
	auto_free struct pve_runner *r = calloc(1, sizeof(*r));

	if (!r)
		return err_oom(e);
	r->agent = a;
	r->runners = runners;
	turn_init(&r->installing);
	lock_init(&r->mu, "pve_runner.mu", LOCK_LEAF);
	*ret = take_ptr(&r);
	return 0;
}

void pve_runner_free(struct pve_runner *r)
{
	if (!r)
		return;
	turn_done(&r->installing);
	lock_done(&r->mu);
	free(r->path);
	free(r);
}

/* Where the runner is. */

int pve_runner_path(struct pve_runner *r, char **ret, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	if (!r->path)
		return err_set(e, ERR_UNAVAILABLE, "the runner is not in the guest");
	return str_dup(r->path, ret, e);
}

static bool installed(struct pve_runner *r)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	return r->path;
}

int pve_runner_install(struct pve_runner *r, const struct op *op, bool force, struct err *e)
{
	auto_turn struct turn *turn = NULL;
	char *path = NULL;

	if (!force && installed(r))
		return 0;
	if (turn_take(&r->installing, op, e) < 0)
		return -1;
	turn = &r->installing;
	if (!force && installed(r))
		return 0;
	if (pve_install(r->agent, op, r->runners, &path, e) < 0)
		return -1;
	auto_unlock struct lock *held = lock_take(&r->mu);
	free(r->path);
	r->path = path;
	return 0;
}

void pve_runner_forget(struct pve_runner *r)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	free(r->path);
	r->path = NULL;
	r->n_old = 0;
}

/* One request. */

struct once {
	struct pve_runner *r;
	char id[ASCII_ID_MAX + 1];
	char *path;
	struct strv argv; /* the whole command, with ids to be forgotten */
	char *input;
	unsigned n_old;
};

static void once_done(struct once *o)
{
	free(o->path);
	free(o->input);
	strv_free(&o->argv);
}

int pve_runner_id(char id[ASCII_ID_MAX + 1], struct err *e)
{
	return str_random_hex(ASCII_ID_MAX / 2, id, e);
}

static void remember_old(struct pve_runner *r, const char *id)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	/* The guest itself removes, after a while, those that find no room here. */
	if (r->n_old < OLD_MAX)
		memcpy(r->old[r->n_old++], id, strlen(id) + 1);
}

static int take_old(struct pve_runner *r, struct strv *argv, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	while (r->n_old)
		strv_add(argv, r->old[--r->n_old]);
	return strv_check(argv, e);
}

/* The directory beside the program in which results and large requests lie. */
static int spool_of(const char *path, char **ret, struct err *e)
{
	return str_printf(ret, e, "%.*s/moat-spool", (int)(strrchr(path, '/') - path), path);
}

/* Makes what goes to stdin: the head, and the request if it is small. */
static int put_input(
	struct once *o, const struct ascii_head *h, struct bytes request, struct err *e)
{
	char head[ASCII_HEAD_MAX];
	size_t n = ascii_put_head(h, head), text = base64_len(request.len);

	o->input = malloc(n + text + 1);
	if (!o->input)
		return err_oom(e);
	memcpy(o->input, head, n);
	if (request.len)
		base64_put(request.p, request.len, o->input + n);
	o->input[n + text] = 0;
	return 0;
}

/* Puts the request into stdin or, if it is too large, into files of the guest's spool. */
static int put_request(struct once *o, const struct op *op, struct bytes request, struct err *e)
{
	struct ascii_head h = {.length = request.len};
	auto_free char *spool = NULL;

	memcpy(h.id, o->id, sizeof(h.id));
	h.crc = ascii_crc(0, request.p, request.len);
	if (pve_agent_piece(request) == request.len)
		return put_input(o, &h, request, e);
	if (spool_of(o->path, &spool, e) < 0)
		return -1;
	for (struct bytes rest = request; rest.len; h.parts++) {
		struct bytes piece = {rest.p, pve_agent_piece(rest)};
		auto_free char *name = NULL;

		if (str_printf(&name, e, "%s/%s.%u", spool, o->id, h.parts) < 0 ||
			pve_agent_write(o->r->agent, op, name, piece, e) < 0)
			return -1;
		rest.p += piece.len;
		rest.len -= piece.len;
	}
	return put_input(o, &h, (struct bytes){0}, e);
}

static int fail_overdue(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE,
		"the guest has not ended the command %d s after its timeout", OVERDUE_S);
}

/* How often and how long failed calls of one operation have been tried again. */
struct retries {
	unsigned tries;
	double pause;
	int64_t until_ns; /* when to give up an agent that is down; 0: it has not been down */
};

static int wait_to_retry(struct once *o, const struct op *op, struct retries *p, struct err *e)
{
	enum pve_agent_failure failure = pve_agent_failure(e);
	struct err late;

	if (failure == PVE_FINAL) {
		if (pve_says_not_running(e))
			e->kind = ERR_UNAVAILABLE;
		return -1;
	}
	if (failure == PVE_AGENT_DOWN) {
		int64_t now = now_ns();

		if (!p->until_ns)
			p->until_ns = now + (int64_t)(AGENT_PATIENCE_S * 1e9);
		if (now > p->until_ns) {
			e->kind = ERR_UNAVAILABLE;
			return -1;
		}
	} else if (++p->tries > TRIES) {
		e->kind = ERR_UNAVAILABLE;
		return -1;
	}
	/* The runner may be gone: removed in the guest, or not there yet in the state that a
	 * rollback restored. */
	if (failure == PVE_NO_PROGRAM && pve_runner_install(o->r, op, true, e) < 0)
		return -1;
	p->pause = p->pause > 0 ? p->pause * 2 : 0.05;
	if (op_pause(op, p->pause < 1 ? p->pause : 1, &late) < 0) {
		*e = late;
		return -1;
	}
	return 0;
}

static int start(struct once *o, const struct op *op, struct retries *p, const char *const *argv,
	const char *input, int64_t *ret_pid, struct err *e)
{
	while (pve_agent_exec(o->r->agent, op, argv, input, ret_pid, e) < 0)
		if (wait_to_retry(o, op, p, e) < 0)
			return -1;
	return 0;
}

static double first_poll(struct pve_runner *r)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	return r->first_poll;
}

/* Adapts the time of the first poll. looked: the number of polls until the command had ended. */
static void learn(struct pve_runner *r, unsigned looked)
{
	auto_unlock struct lock *held = lock_take(&r->mu);

	/* A poll in vain costs as much as many short pauses. */
	if (looked == 1)
		r->first_poll -= EARLIER_S;
	else
		r->first_poll += LATER_S;
	if (r->first_poll < 0)
		r->first_poll = 0;
	if (r->first_poll > FIRST_POLL_MAX_S)
		r->first_poll = FIRST_POLL_MAX_S;
}

/* Polls until the process has ended. 1: the agent does not know it, or its output is lost; fetch
 * the result. */
static int await(struct once *o, const struct op *op, struct retries *p, int64_t pid, bool quick,
	struct qga_exit *ret, struct err *e)
{
	double pause = quick ? first_poll(o->r) : 0.02;
	unsigned looked = 0;

	for (;;) {
		int ended;

		if (pause > 0.001 && op_pause(op, pause, e) < 0)
			return -1;
		ended = pve_agent_status(o->r->agent, op, pid, ret, e);
		looked++;
		if (ended > 0) {
			if (quick)
				learn(o->r, looked);
			return 0;
		}
		if (ended < 0 && pve_agent_failure(e) == PVE_NO_PID)
			return 1;
		if (ended < 0 && pve_says_agent_late(e))
			return 1; /* the output may have been too large for the server */
		if (ended < 0 && wait_to_retry(o, op, p, e) < 0)
			return -1;
		pause = looked == 1 ? SECOND_POLL_S : pause * 1.5 < 1 ? pause * 1.5 : 1;
	}
}

/* Runs `moat-guest VERB ID`, which tells or ends what was started. */
static int fetch(struct once *o, const struct op *op, const char *verb, struct retries *p,
	struct qga_exit *ret, struct err *e)
{
	const char *const argv[] = {o->path, verb, o->id, NULL};
	int64_t pid;
	int rc;

	do {
		if (start(o, op, p, argv, NULL, &pid, e) < 0)
			return -1;
		rc = await(o, op, p, pid, false, ret, e);
		if (rc == 1 && ++p->tries > TRIES)
			return err_set(e, ERR_UNAVAILABLE,
				"the guest agent loses what it is asked to keep");
	} while (rc == 1);
	return rc;
}

static int run_command(struct once *o, const struct op *op, struct qga_exit *ret, struct err *e)
{
	struct retries p = {0};
	int64_t pid;
	int rc;

	if (start(o, op, &p, (const char *const *)o->argv.v, o->input, &pid, e) < 0)
		return -1;
	rc = await(o, op, &p, pid, true, ret, e);
	return rc == 1 ? fetch(o, op, "fetch", &p, ret, e) : rc;
}

/* Kills the command in the guest, if it was started. */
static void kill_command(struct once *o)
{
	struct op op = op_for_cleanup(KILL_S);
	auto_qga_exit struct qga_exit x = {0};
	struct retries p = {.tries = TRIES - 2};
	struct err e;

	if (fetch(o, &op, "kill", &p, &x, &e) == 0)
		remember_old(o->r, o->id);
}

/* Results. */

static int fail_result(struct err *e, const char *what)
{
	return err_set(e, ERR_UNAVAILABLE, "the guest's answer is broken: %s", what);
}

struct part_reader {
	struct pve_runner *r;
	const char *prefix;
	struct buf parts[PARTS_MAX];
};

static void part_reader_done(struct part_reader *p)
{
	for (unsigned i = 0; i < PARTS_MAX; i++)
		buf_free(&p->parts[i]);
}

static int read_part(void *arg, size_t i, const struct op *op, struct err *e)
{
	struct part_reader *p = arg;
	auto_free char *name = NULL;

	if (str_printf(&name, e, "%s%zu", p->prefix, i) < 0)
		return -1;
	if (pve_agent_read(p->r->agent, op, name, 0, &p->parts[i], e) < 0) {
		/* The guest has removed a part of the result. That is no missing file of the
		 * user's. */
		if (e->kind == ERR_BACKEND)
			e->kind = ERR_UNAVAILABLE;
		return -1;
	}
	/* A hostile guest may put more there than the runner ever writes. */
	return p->parts[i].len > ASCII_PART ? fail_result(e, "too long") : 0;
}

static int read_parts(struct pve_runner *r, const struct op *op, const char *prefix, unsigned parts,
	struct buf *ret, struct err *e)
{
	__attribute__((cleanup(part_reader_done))) struct part_reader p = {
		.r = r, .prefix = prefix};

	if (parallel_run(op, PVE_READS_AT_ONCE, parts, read_part, &p, e) < 0)
		return -1;
	for (unsigned i = 0; i < parts; i++) {
		if (buf_add(ret, buf_data(&p.parts[i]), p.parts[i].len, e) < 0)
			return -1;
		buf_free(&p.parts[i]);
	}
	return 0;
}

/* Removes a result right away, because it may be large; does not wait for the end of that. */
static void forget_now(struct pve_runner *r, const char *path, const char *id)
{
	struct op op = op_for_cleanup(10);
	const char *const argv[] = {path, "forget", id, NULL};
	struct err e;
	int64_t pid;

	if (pve_agent_exec(r->agent, &op, argv, NULL, &pid, &e) < 0)
		remember_old(r, id);
}

static int read_result(struct once *o, const struct op *op, const struct qga_exit *x,
	struct buf *ret, struct err *e)
{
	const char *text = (const char *)buf_data(&x->out);
	struct ascii_head h;
	size_t n = x->out.len ? ascii_get_head(text, x->out.len, &h) : 0, len = x->out.len;
	auto_buf struct buf frames = {0};

	if (!n || strcmp(h.id, o->id) != 0 || h.parts > PARTS_MAX)
		return fail_result(e, "no result");
	if (h.parts) {
		auto_free char *prefix = NULL, *spool = NULL;

		if (spool_of(o->path, &spool, e) < 0 ||
			str_printf(&prefix, e, "%s/%s/", spool, o->id) < 0 ||
			read_parts(o->r, op, prefix, h.parts, &frames, e) < 0)
			return -1;
		forget_now(o->r, o->path, o->id);
	} else {
		while (len > n && text[len - 1] == '\n')
			len--;
		if (!base64_decode(text + n, len - n, &frames))
			return fail_result(e, "not base64");
		remember_old(o->r, o->id);
	}
	if (frames.len != h.length || ascii_crc(0, buf_data(&frames), frames.len) != h.crc)
		return fail_result(e, "its check sum");
	*ret = frames;
	frames = (struct buf){0};
	return 0;
}

static int explain(const struct qga_exit *x, struct err *e)
{
	char text[300];
	size_t n = x->err.len;

	if (x->code == ONCE_UNKNOWN)
		return err_set(e, ERR_UNAVAILABLE,
			"what came of the command is lost: the guest was reset, or its runner "
			"killed");
	while (n && buf_data(&x->err)[n - 1] == '\n')
		n--;
	str_escape((const char *)buf_data(&x->err), n, text, sizeof(text));
	return err_set(e, ERR_UNAVAILABLE, "the runner failed in the guest (exit code %d): %s",
		x->code, text);
}

static int find_place(struct once *o, const struct op *op, struct err *e)
{
	if (pve_runner_install(o->r, op, false, e) < 0)
		return -1;
	return pve_runner_path(o->r, &o->path, e);
}

/* Runs the operation whose input is ready. */
static int do_once(
	struct once *o, const struct op *op, double timeout, struct buf *ret_frames, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	struct op part = op_within(op, timeout > 0 ? timeout + OVERDUE_S : 0);

	strv_add_all(&o->argv, o->path, "once", o->id, NULL);
	if (take_old(o->r, &o->argv, e) < 0)
		return -1;
	if (run_command(o, &part, &x, e) < 0) {
		if (e->kind == ERR_TIMEOUT || e->kind == ERR_CANCELLED) {
			struct err now;

			kill_command(o);
			if (e->kind == ERR_TIMEOUT && op_check(op, &now) == 0)
				return fail_overdue(e);
		}
		return -1;
	}
	if (x.code)
		return explain(&x, e);
	return read_result(o, op, &x, ret_frames, e);
}

int pve_runner_do(struct pve_runner *r, const struct op *op, struct bytes request, double timeout,
	struct buf *ret_frames, struct err *e)
{
	__attribute__((cleanup(once_done))) struct once o = {.r = r};

	if (pve_runner_id(o.id, e) < 0 || find_place(&o, op, e) < 0 ||
		put_request(&o, op, request, e) < 0)
		return -1;
	return do_once(&o, op, timeout, ret_frames, e);
}

int pve_runner_do_spooled(struct pve_runner *r, const struct op *op,
	const struct pve_spooled *request, double timeout, struct buf *ret_frames, struct err *e)
{
	__attribute__((cleanup(once_done))) struct once o = {.r = r};
	struct ascii_head h = {.parts = 1, .length = request->length, .crc = request->crc};

	memcpy(o.id, request->id, sizeof(o.id));
	memcpy(h.id, request->id, sizeof(h.id));
	if (find_place(&o, op, e) < 0 || put_input(&o, &h, (struct bytes){0}, e) < 0)
		return -1;
	return do_once(&o, op, timeout, ret_frames, e);
}

void pve_runner_drop(struct pve_runner *r, const char *id)
{
	auto_free char *path = NULL;
	struct err e;

	if (pve_runner_path(r, &path, &e) == 0)
		forget_now(r, path, id);
}

/* Output of commands on the kept line. */

bool pve_parse_spilled(const char *text, const char *spool, char id[33], unsigned parts[2])
{
	size_t n = strlen(spool);
	unsigned a, b;
	int end = 0;

	if (strncmp(text, spool, n) != 0 || text[n] != '/')
		return false;
	if (sscanf(text + n + 1, "%32[0-9a-f] %3u %3u%n", id, &a, &b, &end) != 3 ||
		text[n + 1 + (size_t)end] || a > PARTS_MAX || b > PARTS_MAX)
		return false;
	parts[0] = a;
	parts[1] = b;
	return true;
}

int pve_runner_fetch_spilled(struct pve_runner *r, const struct op *op, const char *where,
	size_t max, const struct guest_io *io, struct err *e)
{
	auto_free char *path = NULL, *spool = NULL;
	char id[ASCII_ID_MAX + 1];
	unsigned parts[2];

	if (pve_runner_path(r, &path, e) < 0 || spool_of(path, &spool, e) < 0)
		return -1;
	if (!pve_parse_spilled(where, spool, id, parts))
		return fail_result(e, "where its output is");
	for (int i = 0; i < 2; i++) {
		auto_free char *prefix = NULL;
		auto_buf struct buf data = {0};

		if (parts[i] > max / ASCII_PART + 1)
			return fail_result(e, "more output than was asked for");
		if (str_printf(&prefix, e, "%s/%s/%d.", spool, id, i + 1) < 0 ||
			read_parts(r, op, prefix, parts[i], &data, e) < 0)
			return -1;
		if (data.len > max)
			return fail_result(e, "more output than was asked for");
		if (data.len &&
			io->output(io->arg, i ? WIRE_STDERR : WIRE_STDOUT, buf_bytes(&data), e) < 0)
			return -1;
	}
	remember_old(r, id);
	return 0;
}
