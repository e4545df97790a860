/*
 * How one operation goes. It has a random id. `moat-guest once ID` is started by agent/exec, with
 * the request in its stdin, or in files if that is too much; agent/exec-status then gives what it
 * printed. Whatever gets lost on the way, the same command with the same id can be given again: the
 * guest does not do it twice, but tells what came of it. Ids whose results we have are named in the
 * next command, so that the guest can forget them.
 *
 * Polls: most commands are over before the answer to agent/exec is here. Whether the last ones were
 * tells when to look first; after that, polls back off.
 */
#include "guest/pve-runner.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "guest/armour.h"
#include "guest/pve-install.h"
#include "util/auto.h"
#include "util/base64.h"
#include "util/lock.h"
#include "util/str.h"
#include "util/strv.h"

enum {
	OLD_MAX = 8,    /* results to be forgotten with the next command */
	TRIES = 6,      /* of a call whose fate is unknown */
	PARTS_MAX = 64, /* of a result: some 200 MB */
	KILL_S = 30,
	OVERDUE_S = 60,   /* after a command's own timeout */
	ONCE_UNKNOWN = 3, /* exit status of moat-guest, see runner/once.h */
};
#define AGENT_PATIENCE_S 90.0 /* for an agent that has answered before, and restarts perhaps */
/* A look too early costs no more than a call: it is not worth waiting for longer. */
#define FIRST_POLL_MAX_S 0.1
#define EARLIER_S        0.004
#define LATER_S          0.03
#define SECOND_POLL_S    0.04

struct pve_runner {
	struct pve_agent *agent;
	char *runner_path;
	struct turn installing;
	pthread_mutex_t mu;
	char *place; /* in the guest; NULL: not installed */
	char old[OLD_MAX][ARMOUR_ID_MAX + 1];
	unsigned n_old;
	double first_poll; /* seconds after the answer to agent/exec */
};

int pve_runner_new(
	struct pve_agent *a, const char *runner_path, struct pve_runner **ret, struct err *e)
{
	auto_free struct pve_runner *r = calloc(1, sizeof(*r));

	if (!r)
		return err_oom(e);
	r->agent = a;
	if (runner_path && str_dup(runner_path, &r->runner_path, e) < 0)
		return -1;
	if (turn_init(&r->installing, e) < 0) {
		free(r->runner_path);
		return -1;
	}
	pthread_mutex_init(&r->mu, NULL);
	*ret = take_ptr(&r);
	return 0;
}

void pve_runner_free(struct pve_runner *r)
{
	if (!r)
		return;
	turn_done(&r->installing);
	pthread_mutex_destroy(&r->mu);
	free(r->runner_path);
	free(r->place);
	free(r);
}

/* Where it is. */

int pve_runner_place(struct pve_runner *r, char **ret, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);

	if (!r->place)
		return err_set(e, ERR_UNAVAILABLE, "the runner is not in the guest");
	return str_dup(r->place, ret, e);
}

static bool installed(struct pve_runner *r)
{
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);

	return r->place;
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
	if (pve_install(r->agent, op, r->runner_path, &path, e) < 0)
		return -1;
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);
	free(r->place);
	r->place = path;
	return 0;
}

void pve_runner_forget(struct pve_runner *r)
{
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);

	free(r->place);
	r->place = NULL;
	r->n_old = 0;
}

/* One request. */

struct once {
	struct pve_runner *r;
	char id[ARMOUR_ID_MAX + 1];
	char *place;
	struct strv argv; /* the whole command, with ids to be forgotten */
	char *input;
	unsigned n_old;
};

static void once_done(struct once *o)
{
	free(o->place);
	free(o->input);
	strv_free(&o->argv);
}

int pve_runner_id(char id[ARMOUR_ID_MAX + 1], struct err *e)
{
	return str_random_hex(ARMOUR_ID_MAX / 2, id, e);
}

static void remember_old(struct pve_runner *r, const char *id)
{
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);

	if (r->n_old < OLD_MAX) /* those that find no room are swept by the guest itself */
		memcpy(r->old[r->n_old++], id, strlen(id) + 1);
}

static int take_old(struct pve_runner *r, struct strv *argv, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);

	while (r->n_old)
		strv_add(argv, r->old[--r->n_old]);
	return strv_check(argv, e);
}

/* The directory beside the program in which results and large requests lie. */
static int spool_of(const char *place, char **ret, struct err *e)
{
	return str_printf(ret, e, "%.*s/moat-spool", (int)(strrchr(place, '/') - place), place);
}

/* What goes to stdin: the head, and the request if it is small. */
static int put_input(
	struct once *o, const struct armour_head *h, struct bytes request, struct err *e)
{
	char head[ARMOUR_HEAD_MAX];
	size_t n = armour_put_head(h, head), text = base64_len(request.len);

	o->input = malloc(n + text + 1);
	if (!o->input)
		return err_oom(e);
	memcpy(o->input, head, n);
	if (request.len)
		base64_put(request.p, request.len, o->input + n);
	o->input[n + text] = 0;
	return 0;
}

/* The request as text for stdin, or in files. */
static int put_request(struct once *o, const struct op *op, struct bytes request, struct err *e)
{
	struct armour_head h = {.length = request.len};
	auto_free char *spool = NULL;

	memcpy(h.id, o->id, sizeof(h.id));
	h.crc = armour_crc(0, request.p, request.len);
	if (pve_agent_piece(request) == request.len)
		return put_input(o, &h, request, e);
	if (spool_of(o->place, &spool, e) < 0)
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

/* After a call that failed: whether to make it again, having waited for a suitable moment. */
struct patience {
	unsigned tries;
	double pause;
	int64_t until_ns; /* for an agent that is down; 0: not yet */
};

static int be_patient(struct once *o, const struct op *op, struct patience *p, struct err *e)
{
	enum pve_trouble trouble = pve_trouble(e);
	struct err late;

	if (trouble == PVE_FINAL) {
		if (strstr(e->msg, "is not running"))
			e->kind = ERR_UNAVAILABLE;
		return -1;
	}
	if (trouble == PVE_AGENT_DOWN) {
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
	/* The guest may have removed the runner, or be another one after a rollback. */
	if (trouble == PVE_NO_PROGRAM && pve_runner_install(o->r, op, true, e) < 0)
		return -1;
	p->pause = p->pause > 0 ? p->pause * 2 : 0.05;
	if (op_pause(op, p->pause < 1 ? p->pause : 1, &late) < 0) {
		*e = late;
		return -1;
	}
	return 0;
}

static int start(struct once *o, const struct op *op, struct patience *p, const char *const *argv,
	const char *input, int64_t *ret_pid, struct err *e)
{
	while (pve_agent_exec(o->r->agent, op, argv, input, ret_pid, e) < 0)
		if (be_patient(o, op, p, e) < 0)
			return -1;
	return 0;
}

static double first_poll(struct pve_runner *r)
{
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);

	return r->first_poll;
}

/* looked: how often until the command was seen to have ended. */
static void learn(struct pve_runner *r, unsigned looked)
{
	auto_unlock pthread_mutex_t *held = lock_take(&r->mu);

	/* One look in vain costs as much as many short pauses. */
	if (looked == 1)
		r->first_poll -= EARLIER_S;
	else
		r->first_poll += LATER_S;
	if (r->first_poll < 0)
		r->first_poll = 0;
	if (r->first_poll > FIRST_POLL_MAX_S)
		r->first_poll = FIRST_POLL_MAX_S;
}

/* Polls until the process has ended. 1: the agent knows nothing of it; ask for the result. */
static int await(struct once *o, const struct op *op, struct patience *p, int64_t pid, bool quick,
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
		if (ended < 0 && pve_trouble(e) == PVE_NO_PID)
			return 1;
		if (ended < 0 && strstr(e->msg, "got timeout"))
			return 1; /* what it printed may be lost */
		if (ended < 0 && be_patient(o, op, p, e) < 0)
			return -1;
		pause = looked == 1 ? SECOND_POLL_S : pause * 1.5 < 1 ? pause * 1.5 : 1;
	}
}

/* Its command line again, but only to ask. */
static int fetch(struct once *o, const struct op *op, const char *verb, struct patience *p,
	struct qga_exit *ret, struct err *e)
{
	const char *const argv[] = {o->place, verb, o->id, NULL};
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
	struct patience p = {0};
	int64_t pid;
	int rc;

	if (start(o, op, &p, (const char *const *)o->argv.v, o->input, &pid, e) < 0)
		return -1;
	rc = await(o, op, &p, pid, true, ret, e);
	return rc == 1 ? fetch(o, op, "fetch", &p, ret, e) : rc;
}

/* Ends what was started, if it was. */
static void kill_command(struct once *o)
{
	struct op op = op_for_cleanup(KILL_S);
	auto_qga_exit struct qga_exit x = {0};
	struct patience p = {.tries = TRIES - 2};
	struct err e;

	if (fetch(o, &op, "kill", &p, &x, &e) == 0)
		remember_old(o->r, o->id);
}

/* Results. */

static int fail_result(struct err *e, const char *what)
{
	return err_set(e, ERR_UNAVAILABLE, "the guest's answer is broken: %s", what);
}

static int read_parts(struct pve_runner *r, const struct op *op, const char *prefix, unsigned parts,
	struct buf *ret, struct err *e)
{
	for (unsigned i = 0; i < parts; i++) {
		auto_free char *name = NULL;
		auto_buf struct buf text = {0};
		size_t before;

		if (str_printf(&name, e, "%s%u", prefix, i) < 0 ||
			pve_agent_read(r->agent, op, name, 0, &text, e) < 0) {
			/* The guest has removed what it had promised: no file of the user's. */
			if (e->kind == ERR_BACKEND)
				e->kind = ERR_UNAVAILABLE;
			return -1;
		}
		before = ret->len;
		if (!base64_decode((const char *)buf_data(&text), text.len, ret))
			return fail_result(e, "not base64");
		/* More than the runner ever writes: not all that the server lets through is kept.
		 */
		if (ret->len - before > ARMOUR_PART)
			return fail_result(e, "too long");
	}
	return 0;
}

/* Removes it right away, without asking how that went: it may be large. */
static void forget_now(struct pve_runner *r, const char *place, const char *id)
{
	struct op op = op_for_cleanup(10);
	const char *const argv[] = {place, "forget", id, NULL};
	struct err e;
	int64_t pid;

	if (pve_agent_exec(r->agent, &op, argv, NULL, &pid, &e) < 0)
		remember_old(r, id);
}

static int read_result(struct once *o, const struct op *op, const struct qga_exit *x,
	struct buf *ret, struct err *e)
{
	const char *text = (const char *)buf_data(&x->out);
	struct armour_head h;
	size_t n = x->out.len ? armour_get_head(text, x->out.len, &h) : 0, len = x->out.len;
	auto_buf struct buf frames = {0};

	if (!n || strcmp(h.id, o->id) != 0 || h.parts > PARTS_MAX)
		return fail_result(e, "no result");
	if (h.parts) {
		auto_free char *prefix = NULL, *spool = NULL;

		if (spool_of(o->place, &spool, e) < 0 ||
			str_printf(&prefix, e, "%s/%s/", spool, o->id) < 0 ||
			read_parts(o->r, op, prefix, h.parts, &frames, e) < 0)
			return -1;
		forget_now(o->r, o->place, o->id);
	} else {
		while (len > n && text[len - 1] == '\n')
			len--;
		if (!base64_decode(text + n, len - n, &frames))
			return fail_result(e, "not base64");
		remember_old(o->r, o->id);
	}
	if (frames.len != h.length || armour_crc(0, buf_data(&frames), frames.len) != h.crc)
		return fail_result(e, "its check sum");
	*ret = frames;
	frames = (struct buf){0};
	return 0;
}

static int explain(const struct qga_exit *x, struct err *e)
{
	char words[300];
	size_t n = x->err.len;

	if (x->code == ONCE_UNKNOWN)
		return err_set(e, ERR_UNAVAILABLE,
			"what came of the command is lost: the guest was reset, or its runner "
			"killed");
	while (n && buf_data(&x->err)[n - 1] == '\n')
		n--;
	str_escape((const char *)buf_data(&x->err), n, words, sizeof(words));
	return err_set(e, ERR_UNAVAILABLE, "the runner failed in the guest (exit code %d): %s",
		x->code, words);
}

static int find_place(struct once *o, const struct op *op, struct err *e)
{
	if (pve_runner_install(o->r, op, false, e) < 0)
		return -1;
	return pve_runner_place(o->r, &o->place, e);
}

/* Its input is ready. */
static int do_once(
	struct once *o, const struct op *op, double timeout, struct buf *ret_frames, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	struct op part = op_within(op, timeout > 0 ? timeout + OVERDUE_S : 0);

	strv_add_all(&o->argv, o->place, "once", o->id, NULL);
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

int pve_runner_do_taken(struct pve_runner *r, const struct op *op, const struct pve_taken *request,
	double timeout, struct buf *ret_frames, struct err *e)
{
	__attribute__((cleanup(once_done))) struct once o = {.r = r};
	struct armour_head h = {.parts = 1, .length = request->length, .crc = request->crc};

	memcpy(o.id, request->id, sizeof(o.id));
	memcpy(h.id, request->id, sizeof(h.id));
	if (find_place(&o, op, e) < 0 || put_input(&o, &h, (struct bytes){0}, e) < 0)
		return -1;
	return do_once(&o, op, timeout, ret_frames, e);
}

void pve_runner_drop(struct pve_runner *r, const char *id)
{
	auto_free char *place = NULL;
	struct err e;

	if (pve_runner_place(r, &place, &e) == 0)
		forget_now(r, place, id);
}

/* Output of commands on the kept channel. */

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
	auto_free char *place = NULL, *spool = NULL;
	char id[ARMOUR_ID_MAX + 1];
	unsigned parts[2];

	if (pve_runner_place(r, &place, e) < 0 || spool_of(place, &spool, e) < 0)
		return -1;
	if (!pve_parse_spilled(where, spool, id, parts))
		return fail_result(e, "where its output is");
	for (int i = 0; i < 2; i++) {
		auto_free char *prefix = NULL;
		auto_buf struct buf data = {0};

		if (parts[i] > max / ARMOUR_PART + 1)
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
