/*
 * How it lives. `mu` guards the state. CLOSED, until uses come often enough: then one thread of our
 * own, the opener, starts the runner on the port and opens the terminal and the line. OPEN: the
 * line is lent to whoever uses the VM; the opener stays, to close it when it has been idle, or when
 * it has failed and nobody holds it any more. One that could not be opened is left alone for a
 * while.
 */
#include "guest/pve-channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "guest/line.h"
#include "guest/pve-term.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/lock.h"
#include "util/log.h"

#define SECOND 1000000000ll

enum {
	OFTEN = 3, /* uses within OFTEN_S */
	OFTEN_S = 10,
	IDLE_S = 30,
	LOOK_S = 5,
	OPEN_TIMEOUT_S = 60,
	HELLO_S = 15,
	QUIET_S = 8,   /* then the runner is asked for a sign of life */
	SILENT_S = 45, /* and after this much silence it is gone */
	AGAIN_S = 60,  /* after a failure, doubled each time */
	AGAIN_MAX_S = 1800,
	STACK = 256 * 1024,
};
#define PORT   "/dev/ttyS1"
#define SERIAL "serial1"

enum state { CLOSED, OPENING, OPEN, ENDING };

struct pve_channel {
	struct pve_channel_vm vm;
	struct op op; /* of the opener; cancelled to end it */
	pthread_mutex_t mu;
	enum state state;
	bool started; /* the opener was, and is to be joined */
	pthread_t opener;
	struct guest *line;
	unsigned users, waiting;
	int opened; /* eventfd, rung for those that wait, when the state is no longer OPENING */
	int64_t uses[OFTEN]; /* when, the last ones */
	unsigned n_uses;
	int64_t last_use, not_before;
	unsigned failures;
	bool said; /* that it cannot be opened */
	struct err why;
};

int pve_channel_new(const struct pve_channel_vm *vm, struct pve_channel **ret, struct err *e)
{
	auto_free struct pve_channel *c = calloc(1, sizeof(*c));

	if (!c)
		return err_oom(e);
	c->vm = *vm;
	c->op.cancel_fd = -1;
	c->opened = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (c->opened < 0)
		return err_sys(e, errno, "eventfd");
	pthread_mutex_init(&c->mu, NULL);
	*ret = take_ptr(&c);
	return 0;
}

/* The opener's work. */

static int serve_port(struct pve_channel *c, const struct op *op, struct err *e)
{
	auto_free char *place = NULL;
	auto_qga_exit struct qga_exit x = {0};
	const char *argv[] = {NULL, "serve", PORT, "--armour", "--daemon", NULL};

	if (pve_runner_install(c->vm.runner, op, false, e) < 0 ||
		pve_runner_place(c->vm.runner, &place, e) < 0)
		return -1;
	argv[0] = place;
	if (pve_agent_run(c->vm.agent, op, argv, NULL, &x, e) < 0)
		return -1;
	if (x.code && !(x.err.len && memmem(buf_data(&x.err), x.err.len, "another moat-guest", 18)))
		return err_set(e, ERR_UNSUPPORTED, "the guest cannot serve " PORT);
	return 0;
}

static int fetch_spilled(void *arg, const struct op *op, const char *where, size_t max,
	const struct guest_io *io, struct err *e)
{
	struct pve_channel *c = arg;

	return pve_runner_fetch_spilled(c->vm.runner, op, where, max, io, e);
}

static int open_line(
	struct pve_channel *c, struct pve_term **ret_term, struct guest **ret_line, struct err *e)
{
	struct op op = op_within(&c->op, OPEN_TIMEOUT_S), hello;
	struct pve_term *term = NULL;
	int fd = -1;

	if (serve_port(c, &op, e) < 0 || pve_term_open(c->vm.agent, &op, SERIAL, &term, &fd, e) < 0)
		return -1;
	hello = op_within(&op, HELLO_S);
	if (line_open(&hello, fd, ret_line, e) < 0) {
		close(fd);
		pve_term_close(term);
		return -1;
	}
	line_set_spill(*ret_line, (struct line_spill){.fetch = fetch_spilled, .arg = c});
	*ret_term = term;
	return 0;
}

static void wake_waiting_locked(struct pve_channel *c)
{
	uint64_t n = c->waiting;

	c->waiting = 0;
	if (n && write(c->opened, &n, sizeof(n)) < 0)
		return; /* it holds more than there can be threads */
}

static void opened(struct pve_channel *c, struct guest *line)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);

	c->line = line;
	c->state = OPEN;
	c->failures = 0;
	c->last_use = now_ns();
	wake_waiting_locked(c);
}

/* True: nobody has it, and nobody will: it can go. */
static bool may_close(struct pve_channel *c, bool ended)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);

	if (line_failed(c->line) || ended || now_ns() - c->last_use > IDLE_S * SECOND) {
		if (c->users && !line_failed(c->line) && !ended)
			return false;
		c->state = ENDING; /* from now on nobody gets it */
	}
	return c->state == ENDING && c->users == 0;
}

static void not_opened(struct pve_channel *c, const struct err *why, bool *ret_say)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);
	int64_t wait = (int64_t)AGAIN_S << (c->failures < 5 ? c->failures : 5);

	c->failures++;
	c->not_before = now_ns() + (wait < AGAIN_MAX_S ? wait : AGAIN_MAX_S) * SECOND;
	c->why = *why;
	c->state = CLOSED;
	*ret_say = !c->said;
	c->said = true;
	wake_waiting_locked(c);
}

static void closed(struct pve_channel *c)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);

	c->line = NULL;
	c->state = CLOSED;
}

/* A serial port does not tell when nobody is behind it any more. */
static void look_after(struct pve_channel *c, struct guest *line)
{
	double silence = line_silence(line);
	bool used;

	{
		auto_unlock pthread_mutex_t *held = lock_take(&c->mu);
		used = c->users > 0;
	}
	if (!used || silence < QUIET_S)
		return;
	if (silence > SILENT_S)
		line_fail(line, "the runner in the guest has fallen silent");
	else
		line_ask_for_sign(line);
}

/* Until it is idle, fails or is to end; users see a line that fails. */
static void keep_open(struct pve_channel *c, struct guest *line)
{
	bool ended = false;
	struct err e;

	while (!may_close(c, ended)) {
		struct op wait = ended ? op_for_cleanup(0) : c->op;

		if (ended)
			line_fail(line, "the channel into the guest was closed");
		if (op_pause(&wait, ended ? 0.02 : LOOK_S, &e) < 0)
			ended = true;
		else if (!ended)
			look_after(c, line);
	}
}

static void *opener_main(void *arg)
{
	struct pve_channel *c = arg;
	struct pve_term *term = NULL;
	struct guest *line = NULL;
	struct err e;
	bool say;

	pthread_setname_np(pthread_self(), "moat-pve-open");
	if (open_line(c, &term, &line, &e) < 0) {
		not_opened(c, &e, &say);
		if (say && e.kind != ERR_CANCELLED)
			log_err(&c->op, LOG_INFO, &e,
				"%s: no kept channel into the guest, every operation takes agent "
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

/* Wants mu held, state CLOSED; an opener of before has ended, or is about to. */
static int start_opener_locked(struct pve_channel *c, struct err *e)
{
	pthread_attr_t attr;
	int eno;

	if (c->started)
		pthread_join(c->opener, NULL);
	c->started = false;
	op_done(&c->op);
	c->op.cancel_fd = -1;
	if (op_init(&c->op, "channel", 0, e) < 0)
		return -1;
	pthread_attr_init(&attr);
	eno = pthread_attr_setstacksize(&attr, STACK);
	if (!eno)
		eno = pthread_create(&c->opener, &attr, opener_main, c);
	pthread_attr_destroy(&attr);
	if (eno)
		return err_sys(e, eno, "start a thread");
	c->started = true;
	c->state = OPENING;
	return 0;
}

/* Users. */

static bool often_locked(struct pve_channel *c, int64_t now)
{
	int64_t first = c->uses[c->n_uses % OFTEN];

	c->uses[c->n_uses++ % OFTEN] = now;
	return c->n_uses >= OFTEN && first && now - first < OFTEN_S * SECOND;
}

/* 1: taken; 0: there is none; 2: one is being opened, and the caller is counted as waiting. */
static int take(struct pve_channel *c, bool need, struct guest **ret, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);
	int64_t now = now_ns();
	bool often = often_locked(c, now);

	if (c->state == OPEN && !line_failed(c->line)) {
		c->users++;
		c->last_use = now;
		*ret = c->line;
		return 1;
	}
	if (c->state == CLOSED && (need || (often && now >= c->not_before)) &&
		start_opener_locked(c, e) < 0)
		return -1;
	if (need && c->state == OPENING) {
		c->waiting++;
		return 2;
	}
	return 0;
}

static int fail_open(struct pve_channel *c, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);

	*e = c->why;
	return err_wrap(e, "the channel over the VM's second serial port");
}

static unsigned failures_of(struct pve_channel *c)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);

	return c->failures;
}

/* A wake-up meant for one that gave up waiting is no harm: whoever gets it looks again. */
static int await_change(struct pve_channel *c, const struct op *op, int got, struct err *e)
{
	uint64_t one;

	if (got == 0) /* the last one is being closed */
		return op_pause(op, 0.05, e);
	if (op_wait_fd(op, c->opened, POLLIN, e) < 0)
		return -1;
	if (read(c->opened, &one, sizeof(one)) < 0 && errno != EAGAIN)
		return err_sys(e, errno, "read");
	return 0;
}

int pve_channel_take(
	struct pve_channel *c, const struct op *op, bool need, struct guest **ret, struct err *e)
{
	unsigned failures = failures_of(c);
	struct guest *line = NULL;
	int got;

	while ((got = take(c, need, &line, e)) != 1) {
		if (got < 0)
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

void pve_channel_give(struct pve_channel *c)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);

	c->users--;
	c->last_use = now_ns();
}

void pve_channel_forget(struct pve_channel *c)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->mu);

	c->not_before = 0;
	if (c->state == OPENING || c->state == OPEN)
		op_cancel(&c->op);
}

void pve_channel_free(struct pve_channel *c)
{
	if (!c)
		return;
	if (c->started) {
		op_cancel(&c->op);
		pthread_join(c->opener, NULL);
	}
	op_done(&c->op);
	close(c->opened);
	pthread_mutex_destroy(&c->mu);
	free(c);
}
