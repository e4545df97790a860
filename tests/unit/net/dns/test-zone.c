/* DNS messages, and what a zone answers, refuses and asks the outside. */
#include "net/zone.h"

#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

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
	uint8_t bad[64];

	OK(dns_parse_query(query(), &q, &e) == 0);
	tap_str(q.name, "example.org", "names are lower case");
	OK(q.id == 0x1234 && q.type == DNS_A);
	OK(dns_make_answer(query(), &q, DNS_OK, 0x0a000001, NULL, &out, &e) == 0);
	OK(dns_parse_answer(buf_bytes(&out), &q, &a, &e) == 0);
	OK(a.n_addrs == 1 && a.addrs[0] == 0x0a000001 && a.rcode == DNS_OK);
	OK(a.n_named == 1 && a.named[0] == 0x0a000001);
	q.id++;
	OK(dns_parse_answer(buf_bytes(&out), &q, &a, &e) < 0); /* to another question */
	for (size_t n = 0; n < query().len; n++)
		if (dns_parse_query((struct bytes){query().p, n}, &q, &e) == 0)
			tap_ok(0, "a query of %zu bytes is accepted", n);
	memcpy(bad, query().p, query().len);
	bad[12] = 0xc0; /* a pointer in the question, to itself */
	bad[13] = 12;
	OK(dns_parse_query((struct bytes){bad, query().len}, &q, &e) < 0);
	memcpy(bad, query().p, query().len);
	bad[2] = 0x80; /* an answer */
	OK(dns_parse_query((struct bytes){bad, query().len}, &q, &e) < 0);
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
	{0, DNS_CNAME, 1, TEXT(ORG), TEXT("\1x" ORG)}, /* nobody asked */
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
	return dns_parse_answer(buf_bytes(&b), &q, ret, &e);
}

/* All addresses are looked at; opened are those of the name that was asked for. */
static void test_named(void)
{
	enum { MX = 15 };
	struct dns_answer a = {0};

	OK(ask_by_type(DNS_A, &a) == 0 && a.n_addrs == 6);
	OK(a.n_named == 2 && a.named[0] == 0xcb007101 && a.named[1] == 0xcb007102);
	OK(a.ttl == 7);
	OK(ask_by_type(DNS_ANY, &a) == 0 && a.n_addrs == 6 && a.n_named == 2);
	OK(ask_by_type(MX, &a) == 0 && a.n_addrs == 6 && a.n_named == 0);
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

static bool is_host(void *arg, uint32_t addr)
{
	(void)arg;
	return addr == 0xc6336402; /* 198.51.100.2 */
}

static int ask(struct zone *z, const char *name, uint16_t type, enum zone_verdict *ret_verdict)
{
	struct dns_question q = {.type = type, .end = 12};
	auto_buf struct buf out = {0};
	struct err e;

	snprintf(q.name, sizeof(q.name), "%s", name);
	if (zone_answer(z, query(), &q, ret_verdict, &out, &e) < 0)
		return -1;
	return out.len ? buf_data(&out)[3] & 0x0f : -2;
}

/* What had to make room for newer ones is still counted. */
static void test_forgotten(const struct zone *z, json_int_t many)
{
	auto_json json_t *list = zone_refusals(z);
	const json_t *last = json_array_get(list, ZONE_REFUSALS_MAX);

	OK(json_array_size(list) == ZONE_REFUSALS_MAX + 1);
	OK(json_is_null(json_object_get(last, "name")));
	OK(json_integer_value(json_object_get(last, "count")) == many);
}

static void test_zone(void)
{
	auto_json json_t *j = json_pack("{s:s, s:s, s:b, s:b, s:{s:s}, s:[ss], s:[s], s:[]}",
		"vnet", "lan", "set", "dns0", "way_out", 1, "open", 0, "names", "victim",
		"10.1.0.2", "domains", "mirror.example", "*.forge.example", "cidrs", "10.5.0.0/16",
		"listen");
	struct zone z = {0};
	enum zone_verdict v;
	struct err e;

	OK(zone_load(&z, j, &e) == 0);
	OK(ask(&z, "victim", DNS_A, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "victim.internal", DNS_A, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "victim.example", DNS_A, &v) == DNS_REFUSED);
	OK(ask(&z, "nobody", DNS_A, &v) == DNS_NXDOMAIN);
	OK(ask(&z, "2.0.1.10.in-addr.arpa", DNS_PTR, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "mirror.example", DNS_A, &v) == -2 && v == ZONE_ASK_OUTSIDE);
	OK(ask(&z, "mirror.example", DNS_AAAA, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "www.mirror.example", DNS_A, &v) == DNS_REFUSED);
	OK(ask(&z, "www.forge.example", DNS_A, &v) == -2 && v == ZONE_ASK_OUTSIDE);
	OK(ask(&z, "www.forge.example?", DNS_A, &v) == DNS_REFUSED); /* no host name's byte */
	OK(z.refused == 3 && z.n_refusals == 3);
	for (unsigned i = 0; i < 2 * ZONE_REFUSALS_MAX; i++) {
		char name[32];

		snprintf(name, sizeof(name), "n%u.example", i);
		zone_refuse(&z, name, "x");
	}
	OK(z.n_refusals == ZONE_REFUSALS_MAX);
	test_forgotten(&z, ZONE_REFUSALS_MAX + 3);
	zone_free(&z);
}

static void test_answers(void)
{
	static const struct {
		uint32_t addr;
		bool fine;
	} rows[] = {
		{0xcb00710a, true},  /* 203.0.113.10 */
		{0xa9fea9fe, false}, /* metadata */
		{0xa83f8110, false},
		{0x646464c8, false},
		{0x7f000001, false},
		{0xc6336402, false}, /* the host */
		{0x0a010001, false}, /* private */
		{0x0a050001, true},  /* private, but named by the policy */
		{0xc0a80001, false},
		{0xe0000001, false},
	};
	struct ipv4_net named = {0x0a050000, 16};
	struct zone z = {.cidrs = &named, .n_cidrs = 1};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct dns_answer a = {.n_addrs = 2, .addrs = {0xcb00710a, rows[i].addr}};

		tap_ok(zone_accepts(&z, &a, is_host, NULL) == rows[i].fine, "address %08x",
			rows[i].addr);
	}
}

/* What was opened longest ago is forgotten first, and opened again. */
static void test_opened(void)
{
	struct zone z = {0};

	OK(!zone_is_open(&z, 0xcb00710a, 100));
	zone_opened(&z, 0xcb00710a, 100);
	OK(zone_is_open(&z, 0xcb00710a, 100) && !zone_is_open(&z, 0xcb00710a, 101));
	OK(!zone_is_open(&z, 0xcb00710b, 100));
	zone_opened(&z, 0xcb00710a, 200);
	OK(zone_is_open(&z, 0xcb00710a, 101));
	for (uint32_t i = 0; i < ZONE_OPEN_MAX - 1; i++)
		zone_opened(&z, i + 1, 300);
	OK(zone_is_open(&z, 0xcb00710a, 200));
	zone_opened(&z, ZONE_OPEN_MAX, 300);
	OK(!zone_is_open(&z, 0xcb00710a, 1) && zone_is_open(&z, 1, 300));
}

int main(void)
{
	test_messages();
	test_named();
	test_names();
	test_zone();
	test_answers();
	test_opened();
	return tap_done();
}
