#include "runner/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/pty.h"
#include "runner/supervise.h"
#include "util/tree.h"

enum {
	KILL_GRACE_MS = 4000,  /* then answer, even if something in the guest will not die */
	PTY_DRAIN = 64 * 1024, /* more than a terminal ever holds */
	SIGNAL_MAX = 64,
};

void exec_answer(struct runner *r, const struct wire_msg *m, const char *what)
{
	char text[256] = "";

	if (m->how == WIRE_NO_USER && m->code == ENOENT)
		snprintf(text, sizeof(text), "no such user: %s", what);
	else if (m->how >= WIRE_NO_USER)
		snprintf(text, sizeof(text), "%s: %s", what, strerror((int)m->code));
	line_send(&r->line, m, text, strlen(text));
}

static void exec_release(struct channel *ch)
{
	struct exec *x = (struct exec *)ch;

	if (x->orders >= 0)
		close(x->orders);
	x->orders = -1;
	watch_close(ch->runner, &x->reports);
	input_close(&x->in);
	for (int i = 0; i < 2; i++) {
		watch_close(ch->runner, &x->out[i].watch);
		ring_free(&x->out[i].tail);
	}
}

/* The answer. Pipes that background processes hold are emptied for them from now on. */
static void finish(struct exec *x)
{
	struct wire_msg m = {.type = WIRE_EXIT,
		.id = x->ch.id,
		.how = x->how,
		.code = x->code,
		.timed_out = x->timed_out,
		.size = x->out[0].total,
		.size2 = x->out[1].total};

	channel_consume(&x->ch, 0, true);
	exec_answer(x->ch.runner, &m,
		x->how == WIRE_NO_USER  ? x->user
		: x->how == WIRE_NO_CWD ? x->cwd
					: x->command);
	for (int i = 0; i < 2 && !x->tty; i++)
		watch_sink(x->ch.runner, &x->out[i].watch);
	exec_release(&x->ch);
	channel_close(&x->ch);
}

/* Reading follows the credit; keeping the tail needs none. */
static void update_watches(struct exec *x)
{
	bool want = x->capture || x->ch.credit > 0;

	for (int i = 0; i < 2; i++)
		watch_set(x->ch.runner, &x->out[i].watch, want && !x->ended ? EPOLLIN : 0);
}

/* After each read(2). False: nothing more will come, or not now. */
static bool account(struct stream *s, ssize_t n)
{
	if (n > 0) {
		s->total += (uint64_t)n;
		s->drain -= (size_t)n < s->drain ? (size_t)n : s->drain;
		return true;
	}
	s->ready = false;
	s->drain = 0;
	/* EIO: the last process has closed the terminal */
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		watch_close(s->exec->ch.runner, &s->watch);
	return false;
}

static bool keep_some(struct stream *s, size_t want)
{
	return account(s, ring_fill(&s->tail, s->watch.fd, want));
}

/* Sends what one read gives. */
static void send_some(struct stream *s, size_t want)
{
	struct channel *ch = &s->exec->ch;
	struct wire_msg m = {.type = WIRE_DATA, .id = ch->id, .stream = s->number};
	uint8_t *place;
	ssize_t n;

	if (want > ch->credit)
		want = ch->credit;
	if (want > WIRE_PIECE)
		want = WIRE_PIECE;
	place = line_begin(&ch->runner->line, &m, want);
	if (!place)
		return;
	n = read(s->watch.fd, place, want);
	line_end(&ch->runner->line, n > 0 ? (size_t)n : 0);
	if (account(s, n))
		ch->credit -= (uint32_t)n;
}

static void send_tail(struct stream *s)
{
	struct channel *ch = &s->exec->ch;
	struct wire_msg m = {.type = WIRE_DATA, .id = ch->id, .stream = s->number};
	size_t n = s->tail.len < WIRE_PIECE ? s->tail.len : WIRE_PIECE;
	uint8_t *place;

	if (n > ch->credit)
		n = ch->credit;
	place = line_begin(&ch->runner->line, &m, n);
	if (!place)
		return;
	line_end(&ch->runner->line, ring_take(&s->tail, place, n));
	ch->credit -= (uint32_t)n;
}

static bool has_more(const struct exec *x)
{
	for (int i = 0; i < 2; i++) {
		const struct stream *s = &x->out[i];

		if (x->capture ? x->ended && s->tail.len : x->ended ? s->drain > 0 : s->ready)
			return true;
	}
	return false;
}

static bool exec_turn(struct channel *ch)
{
	struct exec *x = (struct exec *)ch;

	for (int i = 0; i < 2 && ch->credit; i++) {
		struct stream *s = &x->out[i];

		if (x->capture && s->tail.len && x->ended) {
			send_tail(s);
			break; /* all of stdout before stderr */
		}
		if (x->capture || s->watch.fd < 0)
			continue;
		if (x->ended ? s->drain > 0 : s->ready) {
			s->ready = false; /* level-triggered: the loop will tell again */
			send_some(s, x->ended ? s->drain : WIRE_PIECE);
		}
	}
	if (x->ended && !has_more(x)) {
		finish(x);
		return false;
	}
	update_watches(x);
	return has_more(x);
}

static void exec_credited(struct channel *ch)
{
	struct exec *x = (struct exec *)ch;

	update_watches(x);
	if (has_more(x))
		channel_want_turn(ch);
}

static void stream_ready(struct watch *w, uint32_t events)
{
	struct stream *s = (struct stream *)w;

	(void)events;
	if (s->exec->capture) {
		keep_some(s, SIZE_MAX);
		return;
	}
	s->ready = true;
	channel_want_turn(&s->exec->ch);
}

/* What is in the pipe now was written before the end; what comes later is not waited for. */
static size_t left_in(const struct exec *x, const struct stream *s)
{
	int n = 0;

	if (s->watch.fd < 0)
		return 0;
	if (x->tty)
		return PTY_DRAIN;
	return ioctl(s->watch.fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

static void command_ended(struct exec *x)
{
	if (x->ended)
		return;
	x->ended = true;
	x->ch.deadline = 0;
	watch_close(x->ch.runner, &x->reports);
	for (int i = 0; i < 2 && !x->cancelled; i++) {
		struct stream *s = &x->out[i];

		s->drain = left_in(x, s);
		while (x->capture && s->drain && keep_some(s, s->drain))
			continue;
		ring_trim(&s->tail);
	}
	update_watches(x);
	if (x->cancelled || !has_more(x))
		finish(x);
	else
		channel_want_turn(&x->ch);
}

/* The supervisor has been killed: what is left of the command's session must go as well. */
static void lost_supervisor(struct exec *x)
{
	tree_kill_session(x->pid);
	if (x->how == WIRE_EXITED) {
		x->how = WIRE_SIGNALED;
		x->code = SIGKILL;
	}
	command_ended(x);
}

static void one_report(struct exec *x, const struct report *report)
{
	switch (report->kind) {
	case REPORT_STARTED:
		x->pid = report->value;
		break;
	case REPORT_NO_USER:
	case REPORT_NO_CWD:
	case REPORT_NO_EXEC:
		x->how = (uint8_t)(WIRE_NO_USER + (report->kind - REPORT_NO_USER));
		x->code = (uint32_t)report->value;
		break;
	case REPORT_ENDED:
		if (x->how == WIRE_EXITED) {
			x->how = WIFSIGNALED(report->value) ? WIRE_SIGNALED : WIRE_EXITED;
			x->code =
				(uint32_t)(WIFSIGNALED(report->value) ? WTERMSIG(report->value)
								      : WEXITSTATUS(report->value));
		}
		command_ended(x);
		break;
	}
}

static void read_reports(struct exec *x)
{
	struct report reports[4];
	ssize_t n = -1;

	while (!x->ended && (n = read(x->reports.fd, reports, sizeof(reports))) > 0)
		for (size_t i = 0; i < (size_t)n / sizeof(reports[0]) && !x->ended; i++)
			one_report(x, &reports[i]);
	if (!x->ended && n == 0)
		lost_supervisor(x);
}

static void reports_ready(struct watch *w, uint32_t events)
{
	(void)events;
	read_reports((struct exec *)((char *)w - offsetof(struct exec, reports)));
}

static void kill_all(struct exec *x)
{
	if (x->orders < 0)
		return;
	close(x->orders);
	x->orders = -1;
	x->ch.deadline = clock_ms() + KILL_GRACE_MS;
}

static void exec_expired(struct channel *ch)
{
	struct exec *x = (struct exec *)ch;

	read_reports(x); /* it may have ended just in time */
	if (ch->closed || x->ended)
		return;
	if (x->orders < 0) {
		lost_supervisor(x); /* or one that cannot finish */
		return;
	}
	x->timed_out = true;
	kill_all(x);
}

static void exec_cancel(struct channel *ch)
{
	struct exec *x = (struct exec *)ch;

	x->cancelled = true;
	if (x->ended)
		finish(x); /* without the rest of the output */
	else
		kill_all(x);
}

static void exec_signal(struct channel *ch, uint32_t number)
{
	struct exec *x = (struct exec *)ch;
	uint8_t order = (uint8_t)number;
	pid_t group = x->tty ? pty_foreground(x->in.watch.fd) : 0;

	if (!number || number > SIGNAL_MAX || x->ended || x->orders < 0)
		return;
	if (group)
		kill(-group, (int)number);
	else if (write(x->orders, &order, 1) < 0)
		return; /* the supervisor is gone: the answer is on its way */
}

static void exec_resize(struct channel *ch, uint16_t rows, uint16_t cols)
{
	struct exec *x = (struct exec *)ch;

	if (x->tty)
		pty_resize(x->in.watch.fd, rows, cols);
}

static void exec_data(struct channel *ch, const uint8_t *p, size_t len)
{
	input_data(&((struct exec *)ch)->in, p, len);
}

static void exec_eof(struct channel *ch)
{
	input_eof(&((struct exec *)ch)->in);
}

static const struct channel_ops exec_ops = {
	.turn = exec_turn,
	.credited = exec_credited,
	.data = exec_data,
	.eof = exec_eof,
	.signal = exec_signal,
	.resize = exec_resize,
	.cancel = exec_cancel,
	.expired = exec_expired,
	.release = exec_release,
};

static void stream_init(struct exec *x, int i, int fd, uint64_t max)
{
	x->out[i] = (struct stream){
		.watch = {.fd = fd, .ready = stream_ready},
		.exec = x,
		.number = i == 0 ? WIRE_STDOUT : WIRE_STDERR,
	};
	ring_init(&x->out[i].tail, max);
}

struct exec *exec_new(struct runner *r, const struct wire_msg *m, const struct exec_pipes *pipes)
{
	struct exec *x = (struct exec *)channel_new(r, m->id, sizeof(*x), &exec_ops);

	if (!x)
		return NULL;
	x->tty = m->flags & WIRE_EXEC_PTY;
	x->capture = m->flags & WIRE_EXEC_CAPTURE;
	x->orders = -1;
	input_init(&x->in, &x->ch, pipes->in, x->tty);
	stream_init(x, 0, pipes->out, m->max);
	stream_init(x, 1, pipes->err, m->max);
	if (m->timeout_ms)
		x->ch.deadline = clock_ms() + m->timeout_ms;
	return x;
}

void exec_attend(struct exec *x, int reports, int orders)
{
	x->orders = orders;
	x->reports = (struct watch){.fd = reports, .ready = reports_ready};
	watch_set(x->ch.runner, &x->reports, EPOLLIN);
	update_watches(x);
}
