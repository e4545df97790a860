#include "moat-guest/command/output.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "moat-guest/common/spool.h"

enum { PTY_DRAIN = 64 * 1024 /* more than a terminal ever holds */ };

void output_watch(struct exec *x)
{
	bool want = !x->ended && (x->capture || x->job.credit > 0);

	for (int i = 0; i < 2; i++)
		watch_set(x->job.runner, &x->out[i].watch, want ? EPOLLIN : 0);
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
		watch_close(s->exec->job.runner, &s->watch);
	return false;
}

static bool keep_some(struct stream *s, size_t want)
{
	return account(s, ring_fill(&s->tail, s->watch.fd, want));
}

/* Sends what one read gives. */
static void send_read(struct stream *s, size_t want)
{
	struct job *job = &s->exec->job;
	struct wire_msg m = {.type = WIRE_DATA, .id = job->id, .stream = s->number};
	uint8_t *place;
	ssize_t n;

	if (want > job->credit)
		want = job->credit;
	if (want > WIRE_PIECE)
		want = WIRE_PIECE;
	place = uplink_begin(&job->runner->uplink, &m, want);
	if (!place)
		return;
	n = read(s->watch.fd, place, want);
	uplink_end(&job->runner->uplink, n > 0 ? (size_t)n : 0);
	if (account(s, n))
		job->credit -= (uint32_t)n;
}

static void send_tail(struct stream *s)
{
	struct job *job = &s->exec->job;
	struct wire_msg m = {.type = WIRE_DATA, .id = job->id, .stream = s->number};
	size_t n = s->tail.len < WIRE_PIECE ? s->tail.len : WIRE_PIECE;
	uint8_t *place;

	if (n > job->credit)
		n = job->credit;
	place = uplink_begin(&job->runner->uplink, &m, n);
	if (!place)
		return;
	uplink_end(&job->runner->uplink, ring_take(&s->tail, place, n));
	job->credit -= (uint32_t)n;
}

static bool stream_waits(const struct stream *s)
{
	bool ended = s->exec->ended;

	if (s->exec->capture)
		return ended && s->tail.len > 0;
	return ended ? s->drain > 0 : s->ready;
}

bool output_waits(const struct exec *x)
{
	return stream_waits(&x->out[0]) || stream_waits(&x->out[1]);
}

void output_send_some(struct exec *x)
{
	for (int i = 0; i < 2 && x->job.credit; i++) {
		struct stream *s = &x->out[i];

		if (!stream_waits(s))
			continue;
		if (x->capture) {
			send_tail(s);
			return;
		}
		s->ready = false; /* level-triggered: the loop will tell again */
		if (s->watch.fd >= 0)
			send_read(s, x->ended ? s->drain : WIRE_PIECE);
	}
}

static void stream_ready(struct watch *w, uint32_t events)
{
	struct stream *s = (struct stream *)w;

	(void)events;
	if (s->exec->job.closed)
		return;
	if (s->exec->capture) {
		keep_some(s, SIZE_MAX);
		return;
	}
	s->ready = true;
	job_wants_to_send(&s->exec->job);
}

void output_init(struct exec *x, uint64_t capture_max)
{
	for (int i = 0; i < 2; i++) {
		x->out[i] = (struct stream){
			.watch = {.fd = -1, .ready = stream_ready},
			.theirs = -1,
			.exec = x,
			.number = i == 0 ? WIRE_STDOUT : WIRE_STDERR,
		};
		ring_init(&x->out[i].tail, capture_max);
	}
}

static size_t left_in(const struct stream *s)
{
	int n = 0;

	if (s->watch.fd < 0)
		return 0;
	if (s->exec->tty)
		return PTY_DRAIN;
	return ioctl(s->watch.fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

static void close_theirs(struct stream *s)
{
	if (s->theirs >= 0)
		close(s->theirs);
	s->theirs = -1;
}

void output_ended(struct exec *x)
{
	for (int i = 0; i < 2; i++) {
		struct stream *s = &x->out[i];

		close_theirs(s);
		s->drain = left_in(s);
		while (x->capture && s->drain && keep_some(s, s->drain))
			continue;
		ring_trim(&s->tail);
	}
	/* Much output leaves by files; if that fails, by the line after all. */
	if (x->spill && x->out[0].tail.len + x->out[1].tail.len > WIRE_SPILL_OVER)
		x->spilled = spill_out(&x->out[0].tail, &x->out[1].tail);
}

void output_discard(struct exec *x)
{
	for (int i = 0; i < 2; i++)
		watch_sink(x->job.runner, &x->out[i].watch);
}

void output_close(struct exec *x)
{
	free(x->spilled);
	x->spilled = NULL;
	for (int i = 0; i < 2; i++) {
		close_theirs(&x->out[i]);
		watch_close(x->job.runner, &x->out[i].watch);
		ring_free(&x->out[i].tail);
	}
}
