/* line-guest.h - a scripted guest for tests of the line, and helpers for its host. */
#pragma once

#include "guestlink/line/line.h"

#include "guestlink/line/hello.h"
#include "util/auto.h"
#include "tap.h"
#include "peer.h"

enum { MIB = 1024 * 1024 };

/* The guest's side. */

struct got {
	struct wire_msg msg;
	uint8_t body[WIRE_PIECE];
	uint32_t len;
};

__attribute__((unused)) static bool guest_get(struct peer *p, struct got *g)
{
	uint8_t header[FRAME_HEADER], head[WIRE_HEAD_MAX];
	uint32_t head_len;

	if (!peer_get(p, header, sizeof(header)))
		return false;
	head_len = get_le32(header);
	g->len = get_le32(header + 4);
	if (head_len > sizeof(head) || g->len > sizeof(g->body))
		abort();
	return peer_get(p, head, head_len) && peer_get(p, g->body, g->len) &&
	       wire_decode(head, head_len, &g->msg);
}

/* Reads the next message that is not CREDIT, and adds up the credit before it. */
__attribute__((unused)) static bool guest_get_other(struct peer *p, struct got *g, uint64_t *credit)
{
	while (guest_get(p, g)) {
		if (g->msg.type != WIRE_CREDIT)
			return true;
		*credit += g->msg.count;
	}
	return false;
}

__attribute__((unused)) static bool guest_put(
	struct peer *p, struct wire_msg msg, const void *body, uint32_t len)
{
	uint8_t head[FRAME_HEADER + WIRE_HEAD_MAX];
	size_t n = wire_encode(&msg, head + FRAME_HEADER);

	frame_encode_header(head, (uint32_t)n, len);
	return peer_put(p, head, FRAME_HEADER + n) && (!len || peer_put(p, body, len));
}

__attribute__((unused)) static bool guest_hello(struct peer *p)
{
	struct got g;
	struct wire_msg reply = {.type = WIRE_HELLO_REPLY, .version = WIRE_VERSION, .code = 1};

	if (!guest_get(p, &g) || g.msg.type != WIRE_HELLO)
		return false;
	memcpy(reply.nonce, g.msg.nonce, WIRE_NONCE);
	return guest_put(p, reply, NULL, 0);
}

__attribute__((unused)) static bool guest_exit(struct peer *p, uint32_t id, uint32_t code)
{
	return guest_put(p, (struct wire_msg){.type = WIRE_EXIT, .id = id, .code = code}, NULL, 0);
}

__attribute__((unused)) static bool guest_data(
	struct peer *p, uint32_t id, int stream, const void *d, uint32_t n)
{
	return guest_put(
		p, (struct wire_msg){.type = WIRE_DATA, .id = id, .stream = (uint8_t)stream}, d, n);
}

/* The host's side. */

struct collected {
	struct buf data[WIRE_BODY + 1];
	size_t consumed;
	int refuse; /* if > 0: output() fails after so many calls */
};

__attribute__((unused)) static int collect(void *arg, int stream, struct bytes data, struct err *e)
{
	struct collected *c = arg;

	if (c->refuse && --c->refuse == 0)
		return err_set(e, ERR_CANCELLED, "client gone");
	return buf_add(&c->data[stream], data.p, data.len, e);
}

__attribute__((unused)) static void count_consumed(void *arg, size_t n)
{
	((struct collected *)arg)->consumed += n;
}

__attribute__((unused)) static void collected_free(struct collected *c)
{
	for (size_t i = 0; i < ARRAY_LEN(c->data); i++)
		buf_free(&c->data[i]);
}

__attribute__((unused)) static struct op op_in(double seconds)
{
	return op_for_cleanup(seconds);
}

__attribute__((unused)) static struct guest *open_patient_line(
	struct peer *p, void (*script)(struct peer *), void *arg, double patience)
{
	struct op op = op_in(20);
	struct guest *g = NULL;
	struct err e;
	int fd = peer_start(p, script, arg);

	if (line_open(&op, fd, patience, &g, &e) < 0) {
		printf("# line_open: %s\n", e.msg);
		abort();
	}
	return g;
}

__attribute__((unused)) static struct guest *open_line(
	struct peer *p, void (*script)(struct peer *), void *arg)
{
	return open_patient_line(p, script, arg, 0);
}

__attribute__((unused)) static const char *const argv_true[] = {"true", NULL};

__attribute__((unused)) static int run_exec(
	struct guest *g, double limit, struct collected *c, struct guest_exit *ret, struct err *e)
{
	struct guest_exec req = {.argv = argv_true};
	struct guest_io io = {.output = collect, .arg = c};
	struct op op = op_in(limit);

	return guest_exec(g, &op, &req, &io, ret, e);
}
