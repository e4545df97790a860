/*
 * How a line works. Sending is the outbox's business. `mu`, a leaf lock, guards the channels and
 * what has arrived for them. The pump checks every frame against the rules of its channel, appends
 * data to the channel's buffers, and rings the channel's eventfd unless it is ringing already. It
 * also flushes what the outbox could not send at once.
 */
#include "guest/channel.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "guest/hello.h"
#include "guest/line-ops.h"
#include "guest/send.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/lock.h"
#include "util/str.h"

enum {
	BUCKETS = 64,
	CHUNK_MIN = 4 * 1024, /* reads grow under load; an idle line needs little memory */
	CHUNK_MAX = 128 * 1024,
	PUMP_STACK = 128 * 1024,
	CREDIT_AT = WIRE_WINDOW / 4,
	/* Bytes that may come for operations that are over; each one that did not end in time adds
	 * a window. */
	STRAY_MAX = 1024 * 1024,
};

struct line {
	struct guest base; /* first */
	int fd;
	struct op pump_op;
	pthread_t pump;
	struct line_spill spill;
	_Atomic int64_t heard_ns;

	struct buf in; /* the pump's alone, like chunk */
	size_t chunk;

	struct outbox out;

	pthread_mutex_t mu;
	struct channel *bucket[BUCKETS];
	uint32_t last_id, channels;
	uint64_t stray, stray_max;
	bool failed;
	struct err why;
};

struct channel {
	struct line *line;
	struct channel *next;
	uint32_t id;
	struct channel_rules rules;
	int event;
	size_t owed; /* consumed, not yet credited; the operation's alone */
	/* Under line->mu: */
	bool rung;
	size_t sent, uncredited; /* DATA in flight to the guest; DATA from it not yet credited */
	struct channel_news news;
};

static struct line *line_of(struct guest *g)
{
	return (struct line *)g;
}

/* Neither can fail usefully: the eventfd holds 0 or 1. */
static void ring_locked(struct channel *c)
{
	uint64_t one = 1;

	if (c->rung)
		return;
	c->rung = true;
	if (write(c->event, &one, sizeof(one)) < 0)
		return;
}

static void hush_locked(struct channel *c)
{
	uint64_t count;

	if (!c->rung)
		return;
	c->rung = false;
	if (read(c->event, &count, sizeof(count)) < 0)
		return;
}

static void line_end(struct line *l, const struct err *why)
{
	{
		auto_unlock pthread_mutex_t *held = lock_take(&l->mu);

		if (l->failed)
			return;
		l->failed = true;
		l->why = *why;
		for (int i = 0; i < BUCKETS; i++)
			for (struct channel *c = l->bucket[i]; c; c = c->next)
				ring_locked(c);
	}
	/* Ends the pump and wakes senders that wait for room. The socket itself stays as it is: its
	 * owner may greet a new runner on it. */
	op_cancel(&l->pump_op);
}

/* Returns -1 with the reason for which the line failed. */
static int line_why(struct line *l, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&l->mu);

	*e = l->why;
	return -1;
}

static int fail_closed(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "the connection to the guest was closed");
}

static int blame(struct err *e, const char *what)
{
	return err_set(e, ERR_UNAVAILABLE, "the guest runner broke the protocol: %s", what);
}

void line_fail(struct guest *g, const char *why)
{
	struct err e;

	err_set(&e, ERR_UNAVAILABLE, "%s", why);
	line_end(line_of(g), &e);
}

bool guest_is_line(const struct guest *g)
{
	return g->ops == &line_ops;
}

void line_set_spill(struct guest *g, struct line_spill spill)
{
	line_of(g)->spill = spill;
}

const struct line_spill *line_spill_of(struct guest *g)
{
	struct line *l = line_of(g);

	return l->spill.fetch ? &l->spill : NULL;
}

bool line_failed(struct guest *g)
{
	struct line *l = line_of(g);
	auto_unlock pthread_mutex_t *held = lock_take(&l->mu);

	return l->failed;
}

/* Sending. */

static int line_send(const struct op *op, struct line *l, const struct wire_msg *msg,
	struct bytes body, struct err *e)
{
	if (wire_send(op, &l->out, msg, body, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT || e->kind == ERR_CANCELLED)
		return -1;
	line_end(l,
		e); /* half a frame may be out; if it had ended before, the first reason counts */
	return line_why(l, e);
}

void line_ask_for_sign(struct guest *g)
{
	struct op op = op_for_cleanup(1);
	struct err e;

	line_send(&op, line_of(g), &(struct wire_msg){.type = WIRE_PING}, (struct bytes){0}, &e);
}

double line_silence(struct guest *g)
{
	return (double)(now_ns() - line_of(g)->heard_ns) / 1e9;
}

/* Receiving: all of this runs on the pump. */

static struct channel **find_locked(struct line *l, uint32_t id)
{
	struct channel **at = &l->bucket[id % BUCKETS];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static int take_data_locked(
	struct channel *c, const struct wire_msg *msg, struct bytes body, struct err *e)
{
	if (msg->stream > WIRE_BODY || !(c->rules.streams & 1u << msg->stream))
		return blame(e, "data on a stream that the operation does not have");
	if (body.len > WIRE_WINDOW - c->uncredited)
		return blame(e, "more data than its window allows");
	if (body.len == 0)
		return 0;
	if (buf_add(&c->news.data[msg->stream], body.p, body.len, e) < 0)
		return -1;
	c->uncredited += body.len;
	ring_locked(c);
	return 0;
}

static int take_frame_locked(
	struct channel *c, const struct wire_msg *msg, struct bytes body, struct err *e)
{
	if (c->news.ended)
		return blame(e, "a message for an operation that it had ended");
	if (msg->type == WIRE_DATA)
		return take_data_locked(c, msg, body, e);
	if (msg->type == WIRE_CREDIT && c->rules.input) {
		if (msg->count > c->sent)
			return blame(e, "credit for data that it never got");
		c->sent -= msg->count;
		ring_locked(c);
		return 0;
	}
	if (msg->type != c->rules.end)
		return blame(e, "a message that does not fit the operation");
	c->news.ended = true;
	c->news.end.msg = *msg;
	str_escape((const char *)body.p, body.len, c->news.end.text, sizeof(c->news.end.text));
	ring_locked(c);
	return 0;
}

static int route(struct line *l, const struct frame *frame, struct err *e)
{
	struct wire_msg msg;
	struct channel *c;

	if (!wire_decode(frame->head, frame->head_len, &msg))
		return blame(e, "a message that cannot be read");
	auto_unlock pthread_mutex_t *held = lock_take(&l->mu);
	if (msg.type == WIRE_PONG && msg.id == 0)
		return 0;
	c = *find_locked(l, msg.id);
	if (c)
		return take_frame_locked(c, &msg, (struct bytes){frame->body, frame->body_len}, e);
	/* An operation that did not wait for its end may be over: its late frames are expected. */
	l->stray += FRAME_HEADER + frame->head_len + frame->body_len;
	if (l->stray > l->stray_max)
		return blame(e, "too many messages for no operation");
	return 0;
}

static int route_all(struct line *l, struct err *e)
{
	for (;;) {
		struct frame frame;
		long n = frame_decode(buf_data(&l->in), l->in.len, &wire_to_host, &frame);

		if (n < 0)
			return blame(e, "a message over the limits");
		if (n == 0)
			break;
		if (route(l, &frame, e) < 0)
			return -1;
		buf_drop(&l->in, (size_t)n);
	}
	if (l->in.len == 0 && l->chunk == CHUNK_MIN && l->in.cap > 4 * CHUNK_MIN)
		buf_free(&l->in);
	return 0;
}

static int pump_read(struct line *l, struct err *e)
{
	uint8_t *room = buf_room(&l->in, l->chunk);
	ssize_t got;

	if (!room)
		return err_oom(e);
	got = recv(l->fd, room, l->chunk, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got < 0 && errno != ECONNRESET)
		return err_sys(e, errno, "read from the guest");
	if (got <= 0)
		return fail_closed(e);
	buf_grew(&l->in, (size_t)got);
	l->heard_ns = now_ns();
	if ((size_t)got == l->chunk && l->chunk < CHUNK_MAX)
		l->chunk *= 2;
	else if ((size_t)got < l->chunk / 4 && l->chunk > CHUNK_MIN)
		l->chunk /= 2;
	return route_all(l, e);
}

static int pump_loop(struct line *l, struct err *e)
{
	int left = 0;

	if (route_all(l, e) < 0) /* what came with the greeting */
		return -1;
	for (;;) {
		struct pollfd fds[] = {
			{.fd = l->fd, .events = (short)(left ? POLLIN | POLLOUT : POLLIN)},
			{.fd = l->out.wake, .events = POLLIN},
		};

		if (op_wait_fds(&l->pump_op, fds, ARRAY_LEN(fds), e) < 0)
			return -1;
		if (fds[1].revents || (fds[0].revents & POLLOUT))
			left = outbox_flush(&l->out, e);
		if (left < 0 || ((fds[0].revents & ~POLLOUT) && pump_read(l, e) < 0))
			return -1;
	}
}

static void *pump_main(void *arg)
{
	struct line *l = arg;
	struct err e;

	pthread_setname_np(pthread_self(), "moat-guest-line");
	pump_loop(l, &e);
	line_end(l, &e);
	return NULL;
}

/* Channels. */

void channel_news_free(struct channel_news *news)
{
	for (size_t i = 0; i < ARRAY_LEN(news->data); i++)
		buf_free(&news->data[i]);
}

static int register_locked(struct line *l, struct channel *c, struct err *e)
{
	struct channel **at;

	if (l->failed) {
		*e = l->why;
		return -1;
	}
	if (l->channels >= WIRE_CHANNELS_MAX)
		return err_set(e, ERR_BUSY, "%u operations are running in this VM", l->channels);
	do {
		if (++l->last_id == 0)
			l->last_id = 1;
		at = find_locked(l, l->last_id);
	} while (*at);
	c->id = l->last_id;
	*at = c;
	l->channels++;
	return 0;
}

int channel_open(
	struct guest *g, const struct channel_rules *rules, struct channel **ret, struct err *e)
{
	struct line *l = line_of(g);
	auto_free struct channel *c = calloc(1, sizeof(*c));
	auto_fd int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (!c)
		return err_oom(e);
	if (event < 0)
		return err_sys(e, errno, "eventfd");
	c->line = l;
	c->rules = *rules;
	c->event = event;
	{
		auto_unlock pthread_mutex_t *held = lock_take(&l->mu);

		if (register_locked(l, c, e) < 0)
			return -1;
	}
	take_fd(&event);
	*ret = take_ptr(&c);
	return 0;
}

void channel_close(struct channel *c)
{
	if (!c)
		return;
	{
		struct line *l = c->line;
		auto_unlock pthread_mutex_t *held = lock_take(&l->mu);

		*find_locked(l, c->id) = c->next;
		l->channels--;
		if (!c->news.ended)
			l->stray_max += WIRE_WINDOW;
	}
	channel_news_free(&c->news);
	close(c->event);
	free(c);
}

int channel_send(const struct op *op, struct channel *c, struct wire_msg msg, struct bytes body,
	struct err *e)
{
	struct line *l = c->line;
	size_t data = msg.type == WIRE_DATA ? body.len : 0;

	msg.id = c->id;
	{
		auto_unlock pthread_mutex_t *held = lock_take(&l->mu);

		if (l->failed) {
			*e = l->why;
			return -1;
		}
		c->sent += data; /* before the guest can give credit for it */
	}
	if (line_send(op, l, &msg, body, e) == 0)
		return 0;
	auto_unlock pthread_mutex_t *held = lock_take(&l->mu);
	c->sent -= data <= c->sent ? data : c->sent;
	return -1;
}

size_t channel_room(struct channel *c)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->line->mu);

	return WIRE_WINDOW - c->sent;
}

static void credit_add(struct channel *c, size_t n)
{
	auto_unlock pthread_mutex_t *held = lock_take(&c->line->mu);

	c->uncredited -= n;
}

int channel_consumed(const struct op *op, struct channel *c, size_t n, struct err *e)
{
	struct wire_msg msg = {.type = WIRE_CREDIT};

	c->owed += n;
	if (c->owed < CREDIT_AT) /* the rest of the window keeps the guest busy */
		return 0;
	msg.count = (uint32_t)c->owed;
	credit_add(c, c->owed); /* before the guest can use it */
	if (channel_send(op, c, msg, (struct bytes){0}, e) < 0) {
		credit_add(c, -c->owed);
		return -1;
	}
	c->owed = 0;
	return 0;
}

int channel_fd(const struct channel *c)
{
	return c->event;
}

int channel_take(struct channel *c, struct channel_news *ret, struct err *e)
{
	struct line *l = c->line;
	auto_unlock pthread_mutex_t *held = lock_take(&l->mu);

	if (l->failed && !c->news.ended) {
		*e = l->why;
		return -1;
	}
	hush_locked(c);
	*ret = c->news;
	memset(c->news.data, 0, sizeof(c->news.data));
	return 0;
}

int channel_blame(struct channel *c, const char *what, struct err *e)
{
	blame(e, what);
	line_end(c->line, e);
	return -1;
}

/* The line's life. */

static int pump_start(struct line *l, struct err *e)
{
	pthread_attr_t attr;
	int eno;

	pthread_attr_init(&attr);
	eno = pthread_attr_setstacksize(&attr, PUMP_STACK);
	if (!eno)
		eno = pthread_create(&l->pump, &attr, pump_main, l);
	pthread_attr_destroy(&attr);
	return eno ? err_sys(e, eno, "start a thread") : 0;
}

static void line_release(struct line *l)
{
	if (!l)
		return;
	op_done(&l->pump_op);
	outbox_done(&l->out);
	buf_free(&l->in);
	pthread_mutex_destroy(&l->mu);
	free(l);
}
DEFINE_AUTO(auto_linep, struct line, line_release)

int line_open(const struct op *op, int fd, struct guest **ret, struct err *e)
{
	__attribute__((cleanup(auto_linep))) struct line *l = calloc(1, sizeof(*l));

	if (!l)
		return err_oom(e);
	l->base.ops = &line_ops;
	l->fd = fd;
	l->chunk = CHUNK_MIN;
	l->stray_max = STRAY_MAX;
	l->heard_ns = now_ns();
	l->pump_op.cancel_fd = -1;
	pthread_mutex_init(&l->mu, NULL);
	if (fd_set_nonblock(fd, e) < 0 || op_init(&l->pump_op, "pump", 0, e) < 0 ||
		outbox_init(&l->out, fd, l->pump_op.cancel_fd, "the guest", e) < 0)
		return -1;
	if (hello_exchange(op, &l->out, &l->in, e) < 0 || pump_start(l, e) < 0)
		return -1;
	*ret = &take_ptr(&l)->base;
	return 0;
}

void line_free(struct guest *g)
{
	struct line *l = line_of(g);

	op_cancel(&l->pump_op);
	pthread_join(l->pump, NULL);
	close(l->fd);
	line_release(l);
}
