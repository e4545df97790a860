/* fuzz-dns.c - DNS messages of guests and of upstream servers: parsed, answered, passed on.
 * Whatever a guest asks, what goes upstream is canonical. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/dns/stream.h"
#include "net/dns/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the same bytes as a guest's connection: no message may exceed its limit. */
static void read_as_stream(const uint8_t *data, size_t size)
{
	enum { MAX = 300 };
	struct dns_stream s = {.fd = -1};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	s.fd = ends[0];
	(void)!write(ends[1], data, size);
	close(ends[1]);
	while (dns_stream_read(&s, MAX) == DNS_STREAM_DONE) {
		struct dns_question q;
		struct err e;

		if (dns_stream_message(&s).len > MAX)
			abort();
		(void)dns_parse_query(dns_stream_message(&s), &q, &e);
		dns_stream_next(&s);
	}
	dns_stream_close(&s);
}

/* The length of a name as it must be upstream: host name bytes in lower case, no pointers. */
static size_t check_name(const uint8_t *p, size_t size)
{
	size_t at = 0;

	while (at < size && p[at]) {
		size_t end = at + 1 + p[at];

		if (p[at] > 63 || end >= size)
			abort();
		for (at++; at < end; at++)
			if (!islower(p[at]) && !isdigit(p[at]) && p[at] != '-' && p[at] != '_')
				abort();
	}
	if (at == 0 || at >= size || at + 1 > 255)
		abort();
	return at + 1;
}

/* What is sent upstream for any query of a guest that a vnet with open egress lets out. */
static void check_upstream(const struct dns_question *q)
{
	static const uint8_t head[] = "\xab\xcd\1\0\0\1\0\0\0\0\0\0", in[] = "\0\1";
	static struct refusals refusals;
	struct zone z = {.vnet = "lan", .has_egress = true, .open = true, .refusals = &refusals};
	auto_buf struct buf out = {0}, query = {0};
	enum zone_verdict verdict;
	struct bytes name;
	struct err e;

	if (zone_answer(&z, q, &verdict, &out, &e) < 0)
		abort();
	if ((verdict == ZONE_ANSWERED) != (out.len > 0))
		abort();
	if (verdict == ZONE_ANSWERED)
		return;
	if (dns_make_query(q, 0xabcd, &query, &e) < 0 || query.len < 12 + 4)
		abort();
	if (memcmp(buf_data(&query), head, 12) != 0)
		abort();
	name = (struct bytes){buf_data(&query) + 12, query.len - 12};
	if (check_name(name.p, name.len) + 4 != name.len ||
		memcmp(name.p + name.len - 2, in, 2) != 0)
		abort();
	/* Upstream's question has the length of the guest's: pointers in the answer stay right. */
	if (name.len != q->asked_len)
		abort();
}

/* Whatever an upstream server says, the guest gets its own header and question. */
static void check_passed_on(struct bytes in, struct dns_question *q)
{
	auto_buf struct buf message = {0};
	struct dns_answer a, again;
	struct err e;

	if (dns_parse_answer(in, q, 0x1234, &a, &e) < 0)
		return;
	if (a.n_addrs > DNS_ADDRS_MAX || a.n_named > a.n_addrs || a.end > in.len)
		abort();
	q->id = 0x5678;
	buf_put(&message, in.p, in.len);
	if (buf_check(&message, &e) < 0)
		return;
	dns_pass_on(&a, q, buf_data(&message));
	if (memcmp(buf_data(&message) + 12, q->asked, q->asked_len) != 0)
		abort();
	/* It still says the same, and nothing is behind it. */
	if (dns_parse_answer((struct bytes){buf_data(&message), a.end}, q, 0x5678, &again, &e) <
			0 ||
		again.end != a.end || again.n_addrs != a.n_addrs || again.n_named != a.n_named)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t asked[] = "\0\1\1\0\0\1\0\0\0\0\0\0"
				       "\7eXample\3ORG\0\0\1\0\1";
	struct dns_question q, again;
	struct dns_answer answer;
	struct bytes in = {data, size};
	struct err e;
	uint32_t addr;

	read_as_stream(data, size);
	if (dns_parse_query((struct bytes){asked, sizeof(asked) - 1}, &q, &e) < 0)
		abort();
	check_passed_on(in, &q);
	if (dns_parse_query(in, &q, &e) == 0) {
		auto_buf struct buf out = {0};

		if (q.asked_len > sizeof(q.asked) || strlen(q.name) >= DNS_NAME_MAX)
			abort();
		dns_reverse_name(q.name, &addr);
		dns_name_matches(q.name, "*.example.org");
		check_upstream(&q);
		/* Our own answer must parse as an answer to the query. */
		if (dns_make_answer(&q, DNS_OK, 0x0a000001, NULL, &out, &e) < 0 ||
			dns_parse_answer(buf_bytes(&out), &q, q.id, &answer, &e) < 0 ||
			answer.n_addrs != 1)
			abort();
		again = q;
		again.type++;
		if (dns_parse_answer(buf_bytes(&out), &again, q.id, &answer, &e) == 0)
			abort();
	}
	return 0;
}
