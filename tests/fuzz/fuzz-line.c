/*
 * fuzz-line.c - what a guest can do to a runner's line: a program of steps, in which the host opens
 * and closes channels, sends and consumes, while frames of the guest come in, whole and in pieces.
 *
 * The target keeps count by itself of what the guest may send. It aborts if the line lets more
 * pass, if it blames an honest guest, or if an operation can go on after the line's end.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guestlink/line/channel.h"
#include "guestlink/line/pump.h"
#include "util/auto.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 4, STREAMS = WIRE_BODY + 1 };

/* One operation, and the target's own account of it. */
struct slot {
	struct channel *channel;
	struct channel_rules rules;
	uint32_t id;
	size_t unread;  /* bytes that came and were not consumed */
	size_t owed;    /* consumed bytes for which the guest may have no credit yet */
	size_t sent;    /* bytes of ours for which the guest gave no credit */
	size_t arrived; /* bytes that channel_take has not shown yet */
	bool ended;
};

struct game {
	struct line line;
	struct slot slots[SLOTS];
	uint32_t opened; /* the line numbers its channels from 1 on */
	uint32_t asked;
	struct bytes in;
	bool failed;
	struct err why;
	uint8_t body[WIRE_PIECE];
};

static int ends[2]; /* of a socket: [0] is the line's, [1] is the guest's */
static const struct op at_once = {.deadline_ns = 0, .cancel_fd = -1};

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static uint8_t next_byte(struct game *g)
{
	if (!g->in.len)
		return 0;
	g->in.len--;
	return *g->in.p++;
}

static struct slot *some_slot(struct game *g)
{
	return &g->slots[next_byte(g) % SLOTS];
}

/* The guest reads all that was sent to it. */
static void drain(void)
{
	static uint8_t room[256 * 1024];

	while (recv(ends[1], room, sizeof(room), MSG_DONTWAIT) > 0)
		;
}

static void setup(struct game *g, const uint8_t *data, size_t size)
{
	struct line *l = &g->line;
	struct err e;

	if (!ends[1] && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	g->in = (struct bytes){data, size};
	l->fd = ends[0];
	l->stray_max = 4096;
	l->pump_op = at_once;
	lock_init(&l->mu, "line.mu", LOCK_LEAF);
	demand(op_init(&l->pump_op, "pump", 0, &e) == 0 &&
		outbox_init(&l->out, ends[0], l->pump_op.cancel_fd, "the guest", &e) == 0);
}

static void finish(struct game *g)
{
	for (int i = 0; i < SLOTS; i++)
		channel_close(g->slots[i].channel);
	demand(g->line.channels == 0);
	for (int i = 0; i < LINE_BUCKETS; i++)
		demand(!g->line.bucket[i]);
	outbox_done(&g->line.out);
	op_done(&g->line.pump_op);
	buf_free(&g->line.in);
	lock_done(&g->line.mu);
	drain();
}

/* ---- the guest's part ---- */

/* Whether the line has to take this message; it may be one for no operation. */
static bool is_honest(struct game *g, const struct wire_msg *m, size_t body)
{
	struct slot *s = NULL;

	for (int i = 0; i < SLOTS; i++)
		if (g->slots[i].channel && g->slots[i].id == m->id)
			s = &g->slots[i];
	if (m->type == WIRE_PONG && m->id == 0)
		return g->asked > 0;
	if (!s)
		return true;
	if (s->ended)
		return false;
	if (m->type == WIRE_DATA)
		return m->stream < STREAMS && (s->rules.streams & 1u << m->stream) && body &&
		       body <= WIRE_WINDOW - s->unread - s->owed;
	if (m->type == WIRE_CREDIT)
		return s->rules.input && m->count && m->count <= s->sent;
	return m->type == s->rules.end;
}

/* Notes what an honest message changes. */
static void account(struct game *g, const struct wire_msg *m, size_t body)
{
	if (m->type == WIRE_PONG && m->id == 0)
		g->asked--;
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &g->slots[i];

		if (!s->channel || s->id != m->id)
			continue;
		s->unread += m->type == WIRE_DATA ? body : 0;
		s->arrived += m->type == WIRE_DATA ? body : 0;
		s->sent -= m->type == WIRE_CREDIT ? m->count : 0;
		s->ended |= m->type == s->rules.end;
	}
}

/* Looks at every whole message before the line does. False: the line must refuse one of them. */
static bool judge(struct game *g)
{
	const uint8_t *p = buf_data(&g->line.in);
	size_t left = g->line.in.len;
	struct frame f;
	long n;

	while ((n = frame_decode(p, left, &wire_to_host, &f)) > 0) {
		struct wire_msg m;

		if (!wire_decode(f.head, f.head_len, &m) || !is_honest(g, &m, f.body_len))
			return false;
		account(g, &m, f.body_len);
		p += n;
		left -= (size_t)n;
	}
	return n == 0;
}

static void receive(struct game *g, const void *p, size_t len)
{
	static const char blame[] = "the guest runner broke the protocol: ";
	static const char strays[] = "too many messages for no operation";
	struct err e = {0};
	bool honest;

	if (g->failed)
		return; /* the pump has ended */
	demand(buf_add(&g->line.in, p, len, &e) == 0);
	honest = judge(g);
	if (pump_route(&g->line, &e) == 0) {
		demand(honest && g->line.in.len < FRAME_HEADER + WIRE_HEAD_MAX + WIRE_PIECE);
		return;
	}
	demand(e.kind == ERR_UNAVAILABLE && strncmp(e.msg, blame, sizeof(blame) - 1) == 0);
	demand(!honest || strstr(e.msg, strays));
	line_end(&g->line, &e);
	g->failed = true;
	g->why = e;
}

/* A frame that decodes, whose members are chosen by the input. */
static void receive_message(struct game *g)
{
	static const enum wire_type types[] = {WIRE_DATA, WIRE_DATA, WIRE_CREDIT, WIRE_EXIT,
		WIRE_DONE, WIRE_PONG, WIRE_HELLO_REPLY, WIRE_EOF};
	struct wire_msg m = {.type = types[next_byte(g) % ARRAY_LEN(types)]};
	uint8_t head[FRAME_HEADER + WIRE_HEAD_MAX];
	size_t body = 0, n;

	m.id = next_byte(g);
	m.stream = next_byte(g) % (STREAMS + 1);
	m.count = next_byte(g) * 1024u + next_byte(g);
	m.code = m.count;
	if (m.type == WIRE_DATA)
		body = m.count % (WIRE_PIECE + 1);
	if (m.type == WIRE_EXIT || m.type == WIRE_DONE)
		for (body = next_byte(g) % 64, n = 0; n < body; n++)
			g->body[n] = next_byte(g);
	n = wire_encode(&m, head + FRAME_HEADER);
	frame_encode_header(head, (uint32_t)n, (uint32_t)body);
	receive(g, head, FRAME_HEADER + n);
	receive(g, g->body, body);
}

static void receive_bytes(struct game *g)
{
	size_t n = next_byte(g);

	if (n > g->in.len)
		n = g->in.len;
	receive(g, g->in.p, n);
	g->in.p += n;
	g->in.len -= n;
}

/* ---- the host's part ---- */

/* After the line's end an operation fails with the line's reason. */
static void check_outcome(const struct game *g, int rc, const struct err *e)
{
	if (rc == 0)
		return;
	demand(g->failed && e->kind == g->why.kind && strcmp(e->msg, g->why.msg) == 0);
}

static void open_channel(struct game *g)
{
	struct slot *s = some_slot(g);
	uint8_t how = next_byte(g);
	struct err e;
	int rc;

	if (s->channel)
		return;
	*s = (struct slot){.id = g->opened + 1};
	s->rules = (struct channel_rules){
		.end = how & 1 ? WIRE_EXIT : WIRE_DONE,
		.input = how & 2,
		.streams = how & 4 ? 1u << WIRE_STDOUT | 1u << WIRE_STDERR : 1u << WIRE_BODY,
	};
	rc = channel_open(&g->line.base, &s->rules, &s->channel, &e);
	check_outcome(g, rc, &e);
	demand((rc == 0) == !g->failed);
	g->opened += rc == 0;
}

static void close_channel(struct game *g)
{
	struct slot *s = some_slot(g);

	channel_close(s->channel);
	*s = (struct slot){0};
}

static void take_news(struct game *g)
{
	struct slot *s = some_slot(g);
	auto_channel_news struct channel_news news = {0};
	struct err e;
	size_t n = 0;
	int rc;

	if (!s->channel)
		return;
	rc = channel_take(s->channel, &news, &e);
	check_outcome(g, rc, &e);
	demand((rc == 0) == (!g->failed || s->ended));
	if (rc < 0)
		return;
	for (int i = 0; i < STREAMS; i++) {
		demand(!news.data[i].len || (s->rules.streams & 1u << i));
		n += news.data[i].len;
	}
	demand(n == s->arrived && news.ended == s->ended);
	demand(!news.ended || strlen(news.end.text) < sizeof(news.end.text));
	s->arrived = 0;
}

/* The operation has passed on what it took; the guest may get credit for it. */
static void consume(struct game *g)
{
	struct slot *s = some_slot(g);
	size_t n = s->unread - s->arrived, share = next_byte(g);
	struct err e;
	int rc;

	if (!s->channel || s->ended)
		return;
	n = n * share / 255;
	s->unread -= n;
	s->owed += n;
	rc = channel_consumed(&at_once, s->channel, n, &e);
	check_outcome(g, rc, &e);
	if (rc == 0 && s->owed >= WIRE_WINDOW / 4)
		s->owed = 0;
	drain();
}

static void send_data(struct game *g)
{
	struct slot *s = some_slot(g);
	size_t n = next_byte(g) * 257u, room;
	struct wire_msg m = {.type = WIRE_DATA, .stream = WIRE_BODY};
	struct err e;
	int rc;

	if (!s->channel || !s->rules.input)
		return;
	room = channel_room(s->channel);
	demand(room == WIRE_WINDOW - s->sent);
	if (n > room)
		n = room;
	rc = channel_send(&at_once, s->channel, m, (struct bytes){g->body, n}, &e);
	check_outcome(g, rc, &e);
	demand((rc == 0) == !g->failed);
	s->sent += rc == 0 ? n : 0;
	drain();
}

static void ask_for_sign(struct game *g)
{
	line_ask_for_sign(&g->line.base);
	g->asked++;
	drain();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(struct game *) = {receive_message, receive_message,
		receive_bytes, open_channel, close_channel, take_news, consume, send_data,
		ask_for_sign};
	static struct game g;

	memset(&g, 0, offsetof(struct game, body));
	setup(&g, data, size);
	while (g.in.len)
		steps[next_byte(&g) % ARRAY_LEN(steps)](&g);
	finish(&g);
	return 0;
}
