/*
 * How it works. `mu` guards the state. The line is CLOSED until uses come often enough. Then it is
 * OPENING: one thread, the opener, starts the runner on the port and opens the terminal and the
 * line. While it is OPEN, operations take it and give it back. The opener stays, and closes it when
 * it has been idle, or when it has failed and no operation holds it any more. After an opening that
 * failed the next one waits for a while.
 */
#include "driver/proxmox/guest/kept-line.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "guestlink/line/line.h"
#include "driver/proxmox/guest/term.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/thread/thread.h"

#define SECOND 1000000000ll

enum {
	OFTEN = 3, /* uses within OFTEN_S */
	OFTEN_S = 10,
	IDLE_S = 30,
	LOOK_S = 5,
	OPEN_TIMEOUT_S = 60,
	HELLO_S = 15,
	QUIET_S = 8,   /* then the runner is asked for a sign of life */
	SILENT_S = 45, /* after this much silence the runner counts as gone */
	AGAIN_S = 60,  /* after a failure, doubled each time */
	AGAIN_MAX_S = 1800,
};
#define PORT   "/dev/ttyS1"
#define SERIAL "serial1"

enum state { CLOSED, OPENING, OPEN, ENDING };

struct pve_kept_line {
	struct pve_kept_line_vm vm;
	struct op op; /* of the opener; cancelled to end the line */
	struct lock mu;
	enum state state;
	bool started; /* the opener was started, and has not been joined */
	pthread_t opener;
	struct guest *line;
	unsigned users, waiting;
	int opened; /* eventfd; counts up once for each waiting thread when the state is no longer
		       OPENING */
	int64_t uses[OFTEN]; /* when, the last ones */
	unsigned n_uses;
	int64_t last_use, not_before;
	unsigned failures;
	bool said; /* the log has that it cannot be opened */
	struct err why;
};

int pve_kept_line_new(const struct pve_kept_line_vm *vm, struct pve_kept_line **ret, struct err *e)
{
	auto_free struct pve_kept_line *c = calloc(1, sizeof(*c));

	if (!c)
		return err_oom(e);
	c->vm = *vm;
	c->op.cancel_fd = -1;
	c->opened = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (c->opened < 0)
		return err_sys(e, errno, "eventfd");
	lock_init(&c->mu, "pve_kept_line.mu", LOCK_LEAF);
	*ret = take_ptr(&c);
	return 0;
}

/* The functions from here to opener_main run in the opener's thread. */

static int serve_port(struct pve_kept_line *c, const struct op *op, struct err *e)
{
	auto_free char *path = NULL;
	auto_qga_exit struct qga_exit x = {0};
	const char *argv[] = {NULL, "serve", PORT, "--ascii", "--daemon", NULL};

	if (pve_runner_install(c->vm.runner, op, false, e) < 0 ||
		pve_runner_path(c->vm.runner, &path, e) < 0)
		return -1;
	argv[0] = path;
	if (pve_agent_run(c->vm.agent, op, argv, NULL, &x, e) < 0)
		return -1;
	if (x.code && !(x.err.len && memmem(buf_data(&x.err), x.err.len, WIRE_ANOTHER_RUNNER,
					     strlen(WIRE_ANOTHER_RUNNER))))
		return err_set(e, ERR_UNSUPPORTED, "the guest cannot serve " PORT);
	return 0;
}

static int fetch_spilled(void *arg, const struct op *op, const char *where, size_t max,
	const struct guest_io *io, struct err *e)
{
	struct pve_kept_line *c = arg;

	return pve_runner_fetch_spilled(c->vm.runner, op, where, max, io, e);
}

static int open_line(
	struct pve_kept_line *c, struct pve_term **ret_term, struct guest **ret_line, struct err *e)
{
	struct op op = op_within(&c->op, OPEN_TIMEOUT_S), hello;
	struct pve_term *term = NULL;
	int fd = -1;

	if (serve_port(c, &op, e) < 0 || pve_term_open(c->vm.agent, &op, SERIAL, &term, &fd, e) < 0)
		return -1;
	hello = op_within(&op, HELLO_S);
	if (line_open(&hello, fd, 0, ret_line, e) < 0) {
		close(fd);
		pve_term_close(term);
		return -1;
	}
	line_set_spill(*ret_line, (struct line_spill){.fetch = fetch_spilled, .arg = c});
	*ret_term = term;
	return 0;
}

static void wake_waiting_locked(struct pve_kept_line *c)
{
	uint64_t n = c->waiting;

	c->waiting = 0;
	if (n && write(c->opened, &n, sizeof(n)) < 0)
		return; /* the counter of an eventfd is larger than the number of threads */
}

static void opened(struct pve_kept_line *c, struct guest *line)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	c->line = line;
	c->state = OPEN;
	c->failures = 0;
	c->last_use = now_ns();
	wake_waiting_locked(c);
}

/* True: no operation has the line, and none will get it, so it can be closed. */
static bool may_close(struct pve_kept_line *c, bool ended)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	if (line_failed(c->line) || ended || now_ns() - c->last_use > IDLE_S * SECOND) {
		if (c->users && !line_failed(c->line) && !ended)
			return false;
		c->state = ENDING; /* from now on no operation gets it */
	}
	return c->state == ENDING && c->users == 0;
}

static void not_opened(struct pve_kept_line *c, const struct err *why, bool *ret_say)
{
	auto_unlock struct lock *held = lock_take(&c->mu);
	int64_t wait = (int64_t)AGAIN_S << (c->failures < 5 ? c->failures : 5);

	c->failures++;
	c->not_before = now_ns() + (wait < AGAIN_MAX_S ? wait : AGAIN_MAX_S) * SECOND;
	c->why = *why;
	c->state = CLOSED;
	*ret_say = !c->said;
	c->said = true;
	wake_waiting_locked(c);
}

static void closed(struct pve_kept_line *c)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	c->line = NULL;
	c->state = CLOSED;
}

/* Asks the runner for a sign of life, or gives the line up after a long silence: a serial port
 * does not tell that the runner has ended. */
static void check_silence(struct pve_kept_line *c, struct guest *line)
{
	double silence = line_silence(line);
	bool used;

	{
		auto_unlock struct lock *held = lock_take(&c->mu);
		used = c->users > 0;
	}
	if (!used || silence < QUIET_S)
		return;
	if (silence > SILENT_S)
		line_fail(line, "the runner in the guest has fallen silent");
	else
		line_ask_for_sign(line);
}

/* Returns when the line is idle, has failed, or is told to end. Then operations on it fail. */
static void keep_open(struct pve_kept_line *c, struct guest *line)
{
	bool ended = false;
	struct err e;

	while (!may_close(c, ended)) {
		struct op wait = ended ? op_for_cleanup(0) : c->op;

		if (ended)
			line_fail(line, "the kept line into the guest was closed");
		if (op_pause(&wait, ended ? 0.02 : LOOK_S, &e) < 0)
			ended = true;
		else if (!ended)
			check_silence(c, line);
	}
}

static void *opener_main(void *arg)
{
	struct pve_kept_line *c = arg;
	struct pve_term *term = NULL;
	struct guest *line = NULL;
	struct err e;
	bool say;

	if (open_line(c, &term, &line, &e) < 0) {
		not_opened(c, &e, &say);
		if (say && e.kind != ERR_CANCELLED)
			log_err(&c->op, LOG_INFO, &e,
				"%s: no kept line into the guest, every operation takes agent "
				"calls",
				c->vm.name);
		return NULL;
	}
	opened(c, line);
	keep_open(c, line);
	guest_free(line);
	pve_term_close(term);
	closed(c);
	return NULL;
}

static int new_op(struct pve_kept_line *c, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	op_done(&c->op);
	c->op.cancel_fd = -1;
	return op_init(&c->op, "kept-line", 0, e);
}

static void not_started(struct pve_kept_line *c)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	c->state = CLOSED;
	wake_waiting_locked(c);
}

/* For the one thread that has set the state to OPENING. An earlier opener has ended, or is about
 * to end and does nothing else any more. */
static int start_opener(struct pve_kept_line *c, struct err *e)
{
	if (c->started)
		thread_join(c->opener);
	c->started = false;
	if (new_op(c, e) < 0 || thread_start(&c->opener, "pve-open", opener_main, c, e) < 0) {
		not_started(c);
		return -1;
	}
	c->started = true;
	return 0;
}

/* Users. */

static bool often_locked(struct pve_kept_line *c, int64_t now)
{
	int64_t first = c->uses[c->n_uses % OFTEN];

	c->uses[c->n_uses++ % OFTEN] = now;
	return c->n_uses >= OFTEN && first && now - first < OFTEN_S * SECOND;
}

/* 1: *ret is the line; 0: there is none; 2: it is being opened, and the caller is counted as
 * waiting. *ret_start: the caller has to start the opener. */
static int take(struct pve_kept_line *c, bool need, struct guest **ret, bool *ret_start)
{
	auto_unlock struct lock *held = lock_take(&c->mu);
	int64_t now = now_ns();
	bool often = often_locked(c, now);

	if (c->state == OPEN && !line_failed(c->line)) {
		c->users++;
		c->last_use = now;
		*ret = c->line;
		return 1;
	}
	*ret_start = c->state == CLOSED && (need || (often && now >= c->not_before));
	if (*ret_start)
		c->state = OPENING;
	if (need && c->state == OPENING) {
		c->waiting++;
		return 2;
	}
	return 0;
}

static int fail_open(struct pve_kept_line *c, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	*e = c->why;
	return err_wrap(e, "the line over the VM's second serial port");
}

static unsigned failures_of(struct pve_kept_line *c)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	return c->failures;
}

/* A waiting thread that gave up leaves its wake-up to another, which then looks once too often:
 * no harm. */
static int await_change(struct pve_kept_line *c, const struct op *op, int got, struct err *e)
{
	uint64_t one;

	if (got == 0) /* the last line is being closed */
		return op_pause(op, 0.05, e);
	if (op_wait_fd(op, c->opened, POLLIN, e) < 0)
		return -1;
	if (read(c->opened, &one, sizeof(one)) < 0 && errno != EAGAIN)
		return err_sys(e, errno, "read");
	return 0;
}

int pve_kept_line_take(
	struct pve_kept_line *c, const struct op *op, bool need, struct guest **ret, struct err *e)
{
	unsigned failures = failures_of(c);
	struct guest *line = NULL;
	bool start = false;
	int got;

	while ((got = take(c, need, &line, &start)) != 1) {
		if (start && start_opener(c, e) < 0)
			return -1;
		if (!need)
			break;
		if (await_change(c, op, got, e) < 0)
			return -1;
		if (failures_of(c) > failures)
			return fail_open(c, e);
	}
	*ret = line;
	return 0;
}

void pve_kept_line_give(struct pve_kept_line *c)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	c->users--;
	c->last_use = now_ns();
}

void pve_kept_line_forget(struct pve_kept_line *c)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	c->not_before = 0;
	if (c->state == OPENING || c->state == OPEN)
		op_cancel(&c->op);
}

void pve_kept_line_free(struct pve_kept_line *c)
{
	if (!c)
		return;
	if (c->started) {
		op_cancel(&c->op);
		thread_join(c->opener);
	}
	op_done(&c->op);
	close(c->opened);
	lock_done(&c->mu);
	free(c);
}
