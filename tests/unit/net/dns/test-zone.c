/* Which names a zone answers, refuses and asks upstream servers for. */
#include "net/dns/zone.h"

#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

static bool is_host(void *arg, uint32_t addr)
{
	(void)arg;
	return addr == 0xc6336402; /* 198.51.100.2 */
}

static int ask(struct zone *z, const char *name, uint16_t type, enum zone_verdict *ret_verdict)
{
	struct dns_question q = {.type = type};
	auto_buf struct buf out = {0};
	struct err e;

	snprintf(q.name, sizeof(q.name), "%s", name);
	if (zone_answer(z, &q, ret_verdict, &out, &e) < 0)
		return -1;
	return out.len ? buf_data(&out)[3] & 0x0f : -2;
}

/* Only types of ordinary programs get upstream; all others get an empty answer. Every refusal but
 * that of AAAA, which ordinary programs ask for all the time, is recorded. */
static void test_types(struct zone *z)
{
	static const uint16_t asked[] = {DNS_A, DNS_NS, DNS_CNAME, DNS_SOA, DNS_PTR, DNS_MX,
		DNS_TXT, DNS_SRV, DNS_SVCB, DNS_HTTPS, DNS_CAA};
	uint64_t before = z->refusals->all;
	unsigned n_asked = 0, n_empty = 0;
	enum zone_verdict v;
	bool right = true;

	for (unsigned type = 0; type <= UINT16_MAX; type++) {
		int said = ask(z, "mirror.example", (uint16_t)type, &v);

		n_asked += said == -2 && v == ZONE_ASK_UPSTREAM;
		n_empty += said == DNS_OK && v == ZONE_ANSWERED;
	}
	for (unsigned i = 0; i < ARRAY_LEN(asked); i++)
		right &= ask(z, "mirror.example", asked[i], &v) == -2 && v == ZONE_ASK_UPSTREAM;
	OK(right && n_asked == ARRAY_LEN(asked));
	OK(n_asked + n_empty == UINT16_MAX + 1);
	OK(z->refusals->all - before == n_empty - 1);
}

static void test_zone(void)
{
	auto_json json_t *j = json_pack("{s:s, s:s, s:b, s:b, s:{s:s}, s:[ss], s:[s], s:[]}",
		"vnet", "lan", "set", "dns0", "has_egress", 1, "open", 0, "names", "victim",
		"10.1.0.2", "domains", "mirror.example", "*.forge.example", "cidrs", "10.5.0.0/16",
		"listen");
	static struct refusals refused;
	struct zone z = {.refusals = &refused};
	enum zone_verdict v;
	struct err e;

	OK(zone_load(&z, j, &e) == 0);
	OK(ask(&z, "victim", DNS_A, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "victim.internal", DNS_A, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "victim.example", DNS_A, &v) == DNS_REFUSED);
	OK(ask(&z, "nobody", DNS_A, &v) == DNS_NXDOMAIN);
	OK(ask(&z, "2.0.1.10.in-addr.arpa", DNS_PTR, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "mirror.example", DNS_A, &v) == -2 && v == ZONE_ASK_UPSTREAM);
	OK(ask(&z, "mirror.example", DNS_AAAA, &v) == DNS_OK && v == ZONE_ANSWERED);
	OK(ask(&z, "www.mirror.example", DNS_A, &v) == DNS_REFUSED);
	OK(ask(&z, "www.forge.example", DNS_A, &v) == -2 && v == ZONE_ASK_UPSTREAM);
	/* Bytes that no host name has are refused even where "*" or "open" would match them. */
	OK(ask(&z, "w?w.forge.example", DNS_A, &v) == DNS_REFUSED);
	z.open = true;
	OK(ask(&z, "evil.example", DNS_A, &v) == -2 && v == ZONE_ASK_UPSTREAM);
	OK(ask(&z, "?.evil.example", DNS_A, &v) == DNS_REFUSED);
	z.open = false;
	OK(refused.all == 4 && refused.n == 4);
	test_types(&z);
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
		uint32_t addrs[] = {0xcb00710a, rows[i].addr};

		tap_ok(zone_accepts(&z, addrs, 2, is_host, NULL) == rows[i].fine, "address %08x",
			rows[i].addr);
	}
}

/* The address that was opened first is forgotten first, and then opened again. */
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
	test_zone();
	test_answers();
	test_opened();
	return tap_done();
}
