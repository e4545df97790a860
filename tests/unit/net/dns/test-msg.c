/* DNS messages: queries that are parsed, answers that are made, and answers that are parsed. */
#include "net/dns/msg.h"

#include <string.h>

#include "tap.h"
#include "util/auto.h"

static const uint8_t query_of_example[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
					  "\x07"
					  "eXample"
					  "\x03"
					  "org"
					  "\x00\x00\x01\x00\x01";

static struct bytes query(void)
{
	return (struct bytes){query_of_example, sizeof(query_of_example) - 1};
}

static void test_messages(void)
{
	struct dns_question q;
	struct dns_answer a;
	auto_buf struct buf out = {0};
	struct err e;

	OK(dns_parse_query(query(), &q, &e) == 0);
	tap_str(q.name, "example.org", "names are lower case");
	OK(q.id == 0x1234 && q.type == DNS_A && q.recursion);
	OK(dns_make_answer(&q, DNS_OK, 0x0a000001, NULL, &out, &e) == 0);
	OK(memcmp(buf_data(&out) + 12, query().p + 12, query().len - 12) == 0);
	OK(dns_parse_answer(buf_bytes(&out), &q, 0x1234, &a, &e) == 0);
	OK(a.n_addrs == 1 && a.addrs[0] == 0x0a000001 && a.rcode == DNS_OK);
	OK(a.n_named == 1 && a.named[0] == 0x0a000001 && a.end == out.len);
	OK(dns_parse_answer(buf_bytes(&out), &q, 0x1235, &a, &e) < 0); /* to another question */
	q.type = DNS_TXT;
	OK(dns_parse_answer(buf_bytes(&out), &q, 0x1234, &a, &e) < 0);
}

/* A query with one byte changed, or with bytes behind it. */
static int parse_changed(size_t at, uint8_t value, const char *more, struct dns_question *ret)
{
	uint8_t data[512];
	size_t n = query().len, len = strlen(more);
	struct err e;

	memcpy(data, query().p, n);
	memcpy(data + n, more, len);
	data[at] = value;
	return dns_parse_query((struct bytes){data, n + len}, ret, &e);
}

static void test_bad_queries(void)
{
	struct dns_question q;
	struct err e;

	for (size_t n = 0; n < query().len; n++)
		if (dns_parse_query((struct bytes){query().p, n}, &q, &e) == 0)
			tap_ok(0, "a query of %zu bytes is accepted", n);
	OK(parse_changed(5, 1, "", &q) == 0);
	OK(parse_changed(5, 0, "", &q) < 0);               /* no question */
	OK(parse_changed(5, 2, "\1x\1y\1z", &q) < 0);      /* two questions */
	OK(parse_changed(4, 1, "", &q) < 0);               /* 257 questions */
	OK(parse_changed(7, 1, "", &q) < 0);               /* an answer record */
	OK(parse_changed(9, 1, "", &q) < 0);               /* an authority record */
	OK(parse_changed(11, 2, "", &q) < 0);              /* two additional records */
	OK(parse_changed(2, 0x80, "", &q) < 0);            /* an answer */
	OK(parse_changed(2, 0x28, "", &q) < 0);            /* an update */
	OK(parse_changed(query().len - 1, 3, "", &q) < 0); /* class CH */
	OK(parse_changed(12, 0xc0, "", &q) < 0);           /* a pointer */
	OK(parse_changed(20, 0xc0, "", &q) < 0);           /* a pointer in the middle */
	OK(parse_changed(12, 0x40, "", &q) < 0);           /* a label type nobody uses */
	OK(parse_changed(14, '.', "", &q) == 0 && !dns_is_host_name(q.name));
}

/* A name of four labels with 63, 63, 63 and `last` bytes. */
static int parse_long(uint8_t last, struct dns_question *ret)
{
	auto_buf struct buf b = {0};
	struct err e;

	buf_put(&b, query().p, 12);
	for (unsigned i = 0; i < 4; i++) {
		uint8_t n = i < 3 ? 63 : last;

		buf_put(&b, &n, 1);
		for (unsigned k = 0; k < n; k++)
			buf_put(&b, "A", 1);
	}
	buf_put(&b, "\0\0\1\0\1", 5);
	return dns_parse_query(buf_bytes(&b), ret, &e);
}

static void test_long_names(void)
{
	auto_buf struct buf out = {0};
	struct dns_question q;
	struct err e;

	OK(parse_long(61, &q) == 0 && strlen(q.name) == 253);
	OK(q.asked_len == DNS_QUESTION_MAX);
	OK(dns_make_query(&q, 1, &out, &e) == 0 && out.len == 12 + DNS_QUESTION_MAX);
	OK(parse_long(62, &q) < 0);
}

/* Whatever else is in a guest's query, the server upstream gets these bytes and no others. */
static void test_upstream_query(void)
{
	static const uint8_t wanted[] = "\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
					"\x07"
					"example"
					"\x03"
					"org"
					"\x00\x00\x01\x00\x01";
	static const struct {
		const char *what;
		size_t at;
		uint8_t value;
		const char *more;
	} rows[] = {
		{"as it is", 0, 0x77, ""},
		{"no recursion desired", 2, 0x00, ""},
		{"authoritative, cut", 2, 0x06, ""},
		{"reserved bits, and an rcode", 3, 0x7f, ""},
		{"options", 11, 1, "\1\1\1\51\20\1\1\1\1\1\1\6secret"},
		{"an additional record that is none", 11, 1, "secret"},
		{"bytes behind it", 0, 0, "secret"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf struct buf out = {0};
		struct dns_question q;
		struct err e;

		OK(parse_changed(rows[i].at, rows[i].value, rows[i].more, &q) == 0);
		OK(dns_make_query(&q, 0xabcd, &out, &e) == 0);
		tap_ok(out.len == sizeof(wanted) - 1 &&
				memcmp(buf_data(&out), wanted, out.len) == 0,
			"%s", rows[i].what);
	}
}

static void test_no_host_name(void)
{
	struct dns_question q = {.type = DNS_A, .name = "w?w.example.org"};
	auto_buf struct buf out = {0};
	struct err e;

	OK(dns_make_query(&q, 1, &out, &e) < 0 && out.len == 0);
	q.name[0] = 0;
	OK(dns_make_query(&q, 1, &out, &e) < 0 && out.len == 0);
}

/* The guest gets its own id and question, the records that answer, and nothing else. */
static void test_pass_on(void)
{
	static const uint8_t from_upstream[] = "\xab\xcd\x87\xff\x00\x01\x00\x01\x00\x00\x00\x01"
					       "\x07"
					       "example"
					       "\x03"
					       "org"
					       "\x00\x00\x01\x00\x01"
					       "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04"
					       "\xcb\x00\x71\x0a"
					       "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00"
					       "behind";
	/* Cut, recursion available, rcode 15: the other bits of the header are not passed on. */
	static const uint8_t wanted[] = "\x12\x34\x83\x8f\x00\x01\x00\x01\x00\x00\x00\x00"
					"\x07"
					"eXample"
					"\x03"
					"org"
					"\x00\x00\x01\x00\x01"
					"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04"
					"\xcb\x00\x71\x0a";
	uint8_t data[sizeof(from_upstream) - 1];
	struct dns_question q;
	struct dns_answer a;
	struct err e;

	memcpy(data, from_upstream, sizeof(data));
	OK(dns_parse_query(query(), &q, &e) == 0);
	OK(dns_parse_answer((struct bytes){data, sizeof(data)}, &q, 0xabcd, &a, &e) == 0);
	OK(a.cut && a.rcode == 15 && a.n_named == 1);
	dns_pass_on(&a, &q, data);
	OK(a.end == sizeof(wanted) - 1 && memcmp(data, wanted, a.end) == 0);
	/* The guest would read another name in its own header. */
	memcpy(data, from_upstream, sizeof(data));
	data[30] = 10;
	OK(dns_parse_answer((struct bytes){data, sizeof(data)}, &q, 0xabcd, &a, &e) < 0);
}

/* What an answer to "eXample.org" says, with addresses for others among it. Pointers lead to the
 * names where they first are: those of the records below, one after the other. */
#define ASKED   "\xc0\x0c"
#define ORG     "\xc0\x14"
#define WWW     "\xc0\x29"
#define A_WWW   "\xc0\x3b"
#define TEXT(s) s, sizeof(s) - 1

static const struct rr {
	unsigned section; /* 0: answer, 1: authority, 2: additional */
	uint16_t type;
	uint8_t ttl;
	const char *owner;
	size_t owner_len;
	const char *data;
	size_t len;
} rrs[] = {
	{0, DNS_CNAME, 1, TEXT(ASKED), TEXT("\3wWw" ORG)},
	{0, DNS_CNAME, 1, TEXT(WWW), TEXT("\1a" WWW)},
	{0, DNS_A, 9, TEXT(A_WWW), TEXT("\xcb\x00\x71\x01")},
	{0, DNS_A, 7, TEXT("\1A\3www\3ORG\0"), TEXT("\xcb\x00\x71\x02")},
	{0, DNS_CNAME, 1, TEXT(ORG), TEXT("\1x" ORG)}, /* not the name that was asked for */
	{0, DNS_A, 1, TEXT("\1x\3org\0"), TEXT("\xcb\x00\x71\x03")},
	{0, DNS_A, 1, TEXT(ORG), TEXT("\xcb\x00\x71\x04")},
	{1, DNS_A, 1, TEXT(A_WWW), TEXT("\xcb\x00\x71\x05")},
	{2, DNS_A, 1, TEXT(A_WWW), TEXT("\xcb\x00\x71\x06")},
};

static int ask_by_type(uint8_t type, struct dns_answer *ret)
{
	auto_buf struct buf b = {0};
	struct dns_question q;
	struct err e;

	buf_add(&b, query().p, query().len, &e);
	buf_data(&b)[query().len - 3] = type;
	dns_parse_query(buf_bytes(&b), &q, &e);
	buf_data(&b)[2] = 0x81;
	for (unsigned i = 0; i < ARRAY_LEN(rrs); i++) {
		const struct rr *r = &rrs[i];
		uint8_t head[10] = {0, (uint8_t)r->type, 0, 1, 0, 0, 0, r->ttl, 0, (uint8_t)r->len};

		buf_data(&b)[7 + 2 * r->section]++;
		buf_add(&b, r->owner, r->owner_len, &e);
		buf_add(&b, head, sizeof(head), &e);
		buf_add(&b, r->data, r->len, &e);
	}
	return dns_parse_answer(buf_bytes(&b), &q, q.id, ret, &e);
}

/* All addresses of the answer and authority sections are judged; only those of the name that was
 * asked for are opened. */
static void test_named(void)
{
	struct dns_answer a = {0};

	OK(ask_by_type(DNS_A, &a) == 0 && a.n_addrs == 5);
	OK(a.n_named == 2 && a.named[0] == 0xcb007101 && a.named[1] == 0xcb007102);
	OK(a.ttl == 7);
	OK(ask_by_type(DNS_MX, &a) == 0 && a.n_addrs == 5 && a.n_named == 0);
}

static void test_names(void)
{
	uint32_t addr = 0;

	OK(dns_name_matches("example.org", "Example.org"));
	OK(!dns_name_matches("www.example.org", "example.org"));
	OK(dns_name_matches("a.b.example.org", "*.example.org"));
	OK(!dns_name_matches("example.org", "*.example.org"));
	OK(!dns_name_matches("badexample.org", "*.example.org"));
	OK(dns_reverse_name("1.2.0.10.in-addr.arpa", &addr) && addr == 0x0a000201);
	OK(!dns_reverse_name("1.2.0.256.in-addr.arpa", &addr));
	OK(!dns_reverse_name("1.2.3.in-addr.arpa", &addr));
}

int main(void)
{
	test_messages();
	test_bad_queries();
	test_long_names();
	test_upstream_query();
	test_no_host_name();
	test_pass_on();
	test_named();
	test_names();
	return tap_done();
}
