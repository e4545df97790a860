/*
 * How channels work. The pump checks every frame against the rules of its channel, appends data to
 * the channel's buffers, and rings the channel's eventfd unless it is ringing already. The line's
 * `mu` guards the channels and what has arrived for them.
 */
#include "guestlink/line/channel.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "guestlink/line/pump.h"
#include "util/auto.h"
#include "util/str.h"

enum { CREDIT_AT = WIRE_WINDOW / 4 };

struct channel {
	struct line *line;
	struct channel *next;
	uint32_t id;
	struct channel_rules rules;
	int event;
	size_t owed; /* bytes consumed for which the guest got no credit; the operation's alone */
	/* line->mu guards the rest: */
	bool rung;
	size_t sent;       /* bytes of DATA that the guest has not given credit for */
	size_t uncredited; /* bytes of DATA from the guest that we have not given credit for */
	struct channel_news news;
};

/* Neither write nor read can fail in a way that matters: the eventfd holds 0 or 1. */
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

void channels_ring_locked(struct line *l)
{
	for (int i = 0; i < LINE_BUCKETS; i++)
		for (struct channel *c = l->bucket[i]; c; c = c->next)
			ring_locked(c);
}

/* ---- receiving: on the pump ---- */

static struct channel **find_locked(struct line *l, uint32_t id)
{
	struct channel **at = &l->bucket[id % LINE_BUCKETS];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static int take_data_locked(
	struct channel *c, const struct wire_msg *msg, struct bytes body, struct err *e)
{
	if (msg->stream > WIRE_BODY || !(c->rules.streams & 1u << msg->stream))
		return line_blame(e, "data on a stream that the operation does not have");
	if (body.len > WIRE_WINDOW - c->uncredited)
		return line_blame(e, "more data than its window allows");
	if (body.len == 0) /* no window would bound these */
		return line_blame(e, "data without a byte");
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
		return line_blame(e, "a message for an operation that it had ended");
	if (msg->type == WIRE_DATA)
		return take_data_locked(c, msg, body, e);
	if (msg->type == WIRE_CREDIT && c->rules.input) {
		if (!msg->count)
			return line_blame(e, "credit for no data");
		if (msg->count > c->sent)
			return line_blame(e, "credit for data that it never got");
		c->sent -= msg->count;
		ring_locked(c);
		return 0;
	}
	if (msg->type != c->rules.end)
		return line_blame(e, "a message that does not fit the operation");
	c->news.ended = true;
	c->news.end.msg = *msg;
	str_escape((const char *)body.p, body.len, c->news.end.text, sizeof(c->news.end.text));
	ring_locked(c);
	return 0;
}

int channel_route(struct line *l, const struct frame *frame, struct err *e)
{
	struct wire_msg msg;
	struct channel *c;

	if (!wire_decode(frame->head, frame->head_len, &msg))
		return line_blame(e, "a message that cannot be read");
	auto_unlock struct lock *held = lock_take(&l->mu);
	if (msg.type == WIRE_PONG && msg.id == 0) {
		if (!l->asked)
			return line_blame(e, "an answer that nobody asked for");
		l->asked--;
		return 0;
	}
	c = *find_locked(l, msg.id);
	if (c)
		return take_frame_locked(c, &msg, (struct bytes){frame->body, frame->body_len}, e);
	/* The operation is over, and did not wait for its end: late frames are expected. */
	l->stray += FRAME_HEADER + frame->head_len + frame->body_len;
	if (l->stray > l->stray_max)
		return line_blame(e, "too many messages for no operation");
	return 0;
}

/* ---- for operations ---- */

int64_t channel_stood_ns(const struct channel *c)
{
	int64_t since = c->line->still_ns;

	return c->line->stood_ns + (since ? now_ns() - since : 0);
}

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
		auto_unlock struct lock *held = lock_take(&l->mu);

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
		auto_unlock struct lock *held = lock_take(&l->mu);

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
		auto_unlock struct lock *held = lock_take(&l->mu);

		if (l->failed) {
			*e = l->why;
			return -1;
		}
		c->sent += data; /* before the guest can give credit for it */
	}
	if (line_send(op, l, &msg, body, e) == 0)
		return 0;
	auto_unlock struct lock *held = lock_take(&l->mu);
	c->sent -= data <= c->sent ? data : c->sent;
	return -1;
}

size_t channel_room(struct channel *c)
{
	auto_unlock struct lock *held = lock_take(&c->line->mu);

	return WIRE_WINDOW - c->sent;
}

static void credit_add(struct channel *c, size_t n)
{
	auto_unlock struct lock *held = lock_take(&c->line->mu);

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
	auto_unlock struct lock *held = lock_take(&l->mu);

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
	line_blame(e, what);
	line_end(c->line, e);
	return -1;
}
