/*
 * fuzz-zone.c - the DNS of a vnet over many messages: a guest asks, resolvers answer, addresses are
 * opened. The input is a row of records: a byte for the kind, a byte for the length, the bytes.
 *
 * The target has a policy of its own words: what may be asked upstream, and which addresses a guest
 * may be led to.
 */
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

#include "net/dns/zone.h"
#include "net/plan/set-message.h"
#include "util/auto.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ID = 0x1234, HEADER = 12 };

struct game {
	struct zone zone;
	struct dns_question asked; /* the last that went upstream */
	bool has_asked, ours;      /* ours: the message that is looked at was put together here */
	int64_t now;
};

static const char *const domains[] = {"mirror.example", "*.forge.example"};

static json_t *policy(void)
{
	return json_pack("{s:s, s:s, s:b, s:b, s:{s:s, s:s}, s:[ss], s:[ss], s:[]}", "vnet", "lan",
		"set", "dns0", "has_egress", 1, "open", 0, "names", "victim", "10.1.0.2", "b",
		"10.1.0.3", "domains", domains[0], domains[1], "cidrs", "10.5.0.0/16",
		"192.0.2.0/24", "listen");
}

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static bool may_ask(const char *name)
{
	const char *below = strstr(name, ".forge.example");

	return strcmp(name, domains[0]) == 0 ||
	       (below && below > name && strcmp(name + strlen(name) - 14, ".forge.example") == 0);
}

static bool may_reach(uint32_t a)
{
	uint32_t first = a >> 24, two = a >> 16;

	if (first == 0 || first == 127 || first >= 224 || two == 0xa9fe || a == 0x646464c8 ||
		a == 0xa83f8110)
		return false;
	if (first == 10)
		return two == 0x0a05;
	return !(two >= 0xac10 && two <= 0xac1f) && two != 0xc0a8 && two >> 1 != 0xc612 >> 1 &&
	       !(two >= 0x6440 && two <= 0x647f) && a != 0xc6336402;
}

static bool is_host(void *arg, uint32_t addr)
{
	(void)arg;
	return addr == 0xc6336402;
}

/* The message is a row of whole netlink messages. */
static void check_set_message(const uint32_t *addrs, unsigned n)
{
	auto_buf struct buf message = {0};
	unsigned count = 0;
	size_t at = 0;
	struct err e;

	demand(set_message("dns0", addrs, n, 600, &message, &e) == 0);
	while (at + sizeof(struct nlmsghdr) <= message.len) {
		struct nlmsghdr head;

		memcpy(&head, buf_data(&message) + at, sizeof(head));
		demand(head.nlmsg_len >= sizeof(head) && head.nlmsg_len % 4 == 0);
		at += head.nlmsg_len;
		count++;
	}
	demand(at == message.len && count == 2 + SET_MESSAGE_CHANGES);
}

static void ask(struct game *g, const struct dns_question *q)
{
	auto_buf struct buf out = {0};
	enum zone_verdict verdict;
	struct dns_answer answer;
	struct err e;

	demand(zone_answer(&g->zone, q, &verdict, &out, &e) == 0);
	if (verdict == ZONE_ASK_UPSTREAM) {
		demand(!out.len && may_ask(q->name));
		g->asked = *q;
		g->has_asked = true;
		return;
	}
	/* Our own answer parses, and leads nowhere but to a VM. */
	demand(dns_parse_answer(buf_bytes(&out), q, q->id, &answer, &e) == 0);
	for (unsigned i = 0; i < answer.n_addrs; i++)
		demand(answer.addrs[i] == 0x0a010002 || answer.addrs[i] == 0x0a010003);
}

static void take_query(struct game *g, struct bytes in)
{
	struct dns_question q;
	struct err e;

	if (dns_parse_query(in, &q, &e) == 0)
		ask(g, &q);
	else
		demand(!g->ours);
}

/* A query for a name of the input: "label.label", its type in front. */
static void make_query(struct game *g, struct bytes in)
{
	static const uint8_t head[HEADER] = "\x56\x78\1\0\0\1";
	auto_buf struct buf b = {0};
	size_t at = 1;

	if (in.len < 2 || in.len > 250)
		return;
	buf_put(&b, head, sizeof(head));
	while (at < in.len) {
		const uint8_t *dot = memchr(in.p + at, '.', in.len - at);
		size_t n = dot ? (size_t)(dot - in.p) - at : in.len - at;
		uint8_t len = (uint8_t)n;

		if (!n || n > 63)
			return;
		buf_put(&b, &len, 1);
		buf_put(&b, in.p + at, n);
		at += n + 1;
	}
	buf_put(&b, (uint8_t[]){0, 0, in.p[0], 0, 1}, 5);
	g->ours = true;
	take_query(g, buf_bytes(&b));
	g->ours = false;
}

static void admit(struct game *g, const struct dns_answer *a)
{
	bool accepted = zone_accepts(&g->zone, a->addrs, a->n_addrs, is_host, NULL), good = true;
	uint32_t closed[DNS_ADDRS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < a->n_addrs; i++)
		good &= may_reach(a->addrs[i]);
	demand(good || !accepted);
	if (!accepted) {
		refusals_add(g->zone.refusals, g->asked.name, REFUSED_ADDRESS);
		return;
	}
	for (unsigned i = 0; i < a->n_named; i++)
		if (!zone_is_open(&g->zone, a->named[i], g->now + 300)) {
			closed[n++] = a->named[i];
			zone_opened(&g->zone, a->named[i], g->now + 600);
			demand(zone_is_open(&g->zone, a->named[i], g->now + 600));
		}
	if (n)
		check_set_message(closed, n);
}

static void take_answer(struct game *g, struct bytes in)
{
	static struct dns_answer a;
	auto_buf struct buf message = {0};
	struct err e;

	if (!g->has_asked || dns_parse_answer(in, &g->asked, ID, &a, &e) < 0)
		return;
	demand(a.end <= in.len && a.n_named <= a.n_addrs && a.n_addrs <= DNS_ADDRS_MAX);
	admit(g, &a);
	buf_put(&message, in.p, in.len);
	dns_pass_on(&a, &g->asked, buf_data(&message));
	demand(memcmp(buf_data(&message) + HEADER, g->asked.asked, g->asked.asked_len) == 0);
}

/* An answer to the last question: the input has how many records, and the records. */
static void make_answer(struct game *g, struct bytes in)
{
	auto_buf struct buf b = {0};
	struct err e;
	uint8_t *p;

	if (!g->has_asked || in.len < 2 || dns_make_query(&g->asked, ID, &b, &e) < 0)
		return;
	buf_put(&b, in.p + 2, in.len - 2);
	demand(buf_check(&b, &e) == 0);
	p = buf_data(&b);
	p[2] |= 0x80;
	p[7] = in.p[0];
	p[9] = in.p[1];
	take_answer(g, buf_bytes(&b));
}

/* What was refused is listed, or counted. */
static void check_refusals(const struct refusals *r)
{
	json_t *list = json_array(), *one;
	json_int_t sum = 0;
	size_t i;

	demand(refusals_list(r, "lan", list) == 0);
	json_array_foreach(list, i, one)
		sum += json_integer_value(json_object_get(one, "count"));
	demand(sum == (json_int_t)r->all && json_array_size(list) <= REFUSALS_MAX + 1);
	json_decref(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *words = policy();
	struct refusals refused = {0};
	struct game g = {.zone.refusals = &refused, .now = 1000};
	struct err e;

	demand(zone_load(&g.zone, words, &e) == 0);
	while (size >= 2) {
		size_t n = data[1] < size - 2 ? data[1] : size - 2;
		struct bytes in = {data + 2, n};

		switch (data[0] % 5) {
		case 0:
			take_query(&g, in);
			break;
		case 1:
			make_query(&g, in);
			break;
		case 2:
			take_answer(&g, in);
			break;
		case 3:
			make_answer(&g, in);
			break;
		default:
			g.now += (int64_t)n * 16;
		}
		data += 2 + n;
		size -= 2 + n;
	}
	check_refusals(&refused);
	zone_free(&g.zone);
	return 0;
}
