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
#include "runner/spool.h"
#include "util/tree.h"

enum {
	/*
	 * Output that is kept until the command has ended can stay in the pipe for a while: most
	 * commands write little and are soon over, and nobody is woken for what they write.
	 */
	ATTEND_MS = 10,
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

	if (x->supervisor)
		supervise_drop(x->supervisor);
	x->supervisor = NULL;
	input_close(&x->in);
	free(x->spilled);
	x->spilled = NULL;
	for (int i = 0; i < 2; i++) {
		watch_close(ch->runner, &x->out[i].watch);
		ring_free(&x->out[i].tail);
	}
}

/* A pipe that the loop does not know; -1 for none. */
static int take_unwatched(struct stream *s)
{
	int fd = s->watch.events ? -1 : s->watch.fd;

	if (fd >= 0)
		s->watch.fd = -1;
	return fd;
}

/* Pipes that background processes hold are emptied for them from now on. */
static void exec_bury(struct channel *ch)
{
	struct exec *x = (struct exec *)ch;
	struct pipe_ends ours = {-1, -1};

	if (x->supervisor && x->alone && !x->tty)
		ours = (struct pipe_ends){take_unwatched(&x->out[0]), take_unwatched(&x->out[1])};
	if (x->supervisor)
		supervise_return(x->supervisor, x->alone, ours);
	x->supervisor = NULL;
	for (int i = 0; i < 2 && !x->tty && !x->alone; i++)
		watch_sink(ch->runner, &x->out[i].watch);
	exec_release(ch);
}

/* What a failure is about. */
static const char *subject(const struct exec *x)
{
	const struct job *job = x->supervisor ? x->supervisor->job : NULL;

	if (!job || x->how < WIRE_NO_USER)
		return "";
	if (x->how == WIRE_NO_USER)
		return job->user.name;
	if (x->how == WIRE_NO_CWD)
		return job->cwd[0] ? job->cwd : "/";
	return job->argv[0];
}

/* The answer. The rest can wait until it is sent. */
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
	if (x->spilled)
		line_send(&x->ch.runner->line, &m, x->spilled, strlen(x->spilled));
	else
		exec_answer(x->ch.runner, &m, subject(x));
	channel_close(&x->ch);
}

/* Reading follows the credit; keeping the tail needs none. */
static void update_watches(struct exec *x)
{
	bool want = x->capture ? !x->ch.attend_at : x->ch.credit > 0;

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

static void exec_attend(struct channel *ch)
{
	update_watches((struct exec *)ch);
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
	if (s->exec->ch.closed)
		return;
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

/* Much output leaves by files; if that fails, by the line after all. */
static void spill(struct exec *x)
{
	if (x->out[0].tail.len + x->out[1].tail.len > WIRE_SPILL_OVER)
		x->spilled = spill_out(&x->out[0].tail, &x->out[1].tail);
}

static void command_ended(struct exec *x)
{
	if (x->ended)
		return;
	x->ended = true;
	x->ch.deadline = x->ch.attend_at = 0;
	for (int i = 0; i < 2 && !x->cancelled; i++) {
		struct stream *s = &x->out[i];

		s->drain = left_in(x, s);
		while (x->capture && s->drain && keep_some(s, s->drain))
			continue;
		ring_trim(&s->tail);
	}
	if (!x->cancelled && x->spill)
		spill(x);
	if (x->cancelled || !has_more(x)) {
		finish(x);
		return;
	}
	update_watches(x);
	channel_want_turn(&x->ch);
}

/* The supervisor has been killed: what is left of the command's session must go as well. */
static void lost_supervisor(struct exec *x)
{
	tree_kill_session(x->supervisor->job->state.pid);
	supervise_drop(x->supervisor);
	x->supervisor = NULL;
	if (x->how == WIRE_EXITED) {
		x->how = WIRE_SIGNALED;
		x->code = SIGKILL;
	}
	command_ended(x);
}

static void take_report(struct exec *x, const struct report *report)
{
	if (report->stage != JOB_RUNS) {
		x->how = (uint8_t)(WIRE_NO_USER + (report->stage - JOB_NO_USER));
		x->code = (uint32_t)report->value;
	} else if (WIFSIGNALED(report->value)) {
		x->how = WIRE_SIGNALED;
		x->code = (uint32_t)WTERMSIG(report->value);
	} else {
		x->code = (uint32_t)WEXITSTATUS(report->value);
	}
	x->alone = report->alone;
	command_ended(x);
}

static void read_report(struct exec *x)
{
	struct report report;
	int got = supervise_report(x->supervisor, &report);

	if (got > 0)
		take_report(x, &report);
	else if (got < 0)
		lost_supervisor(x);
}

static void supervisor_news(void *arg)
{
	struct exec *x = arg;

	if (!x->ended) {
		read_report(x);
		return;
	}
	/* It has reported and left, and there is still output to send. */
	supervise_drop(x->supervisor);
	x->supervisor = NULL;
}

static void kill_all(struct exec *x)
{
	if (x->killing)
		return;
	x->killing = true;
	supervise_end_all(x->supervisor);
	x->ch.deadline = clock_ms() + KILL_GRACE_MS;
}

static void exec_expired(struct channel *ch)
{
	struct exec *x = (struct exec *)ch;

	read_report(x); /* it may have ended just in time */
	if (x->ended)
		return;
	if (x->killing) {
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
	pid_t group = x->tty ? pty_foreground(x->in.watch.fd) : 0;

	if (!number || number > SIGNAL_MAX || x->ended || x->killing)
		return;
	read_report(x); /* so that the process group is still the command's */
	if (x->ended)
		return;
	if (group)
		kill(-group, (int)number);
	else
		supervise_signal(x->supervisor, (int)number);
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
	.attend = exec_attend,
	.release = exec_release,
	.bury = exec_bury,
};

static void stream_init(struct exec *x, int i, uint64_t max)
{
	x->out[i] = (struct stream){
		.watch = {.fd = -1, .ready = stream_ready},
		.exec = x,
		.number = i == 0 ? WIRE_STDOUT : WIRE_STDERR,
	};
	ring_init(&x->out[i].tail, max);
}

struct exec *exec_new(struct runner *r, const struct wire_msg *m)
{
	struct exec *x = (struct exec *)channel_new(r, m->id, sizeof(*x), &exec_ops);

	if (!x)
		return NULL;
	x->tty = m->flags & WIRE_EXEC_PTY;
	x->capture = m->flags & WIRE_EXEC_CAPTURE;
	x->spill = x->capture && (m->flags & WIRE_EXEC_SPILL);
	input_init(&x->in, &x->ch, -1, x->tty);
	stream_init(x, 0, m->max);
	stream_init(x, 1, m->max);
	if (m->timeout_ms)
		x->ch.deadline = clock_ms() + m->timeout_ms;
	if (x->capture && !x->tty)
		x->ch.attend_at = clock_ms() + ATTEND_MS;
	return x;
}

int exec_run(struct exec *x, struct supervisor *s, int in, const struct exec_ends *ours)
{
	int error = supervise_start(s, in, supervisor_news, x);

	if (error)
		return error;
	x->supervisor = s;
	x->in.watch.fd = ours->in;
	x->out[0].watch.fd = ours->out;
	x->out[1].watch.fd = ours->err;
	update_watches(x);
	return 0;
}
