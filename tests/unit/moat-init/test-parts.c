/* The pure parts of process 1: records of services, DHCP messages, the log. */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <stdlib.h>

#include "moat-init/dhcp/packet.h"
#include "moat-init/record.h"
#include "moat-init/ring.h"
#include "tap.h"
#include "wire/service.h"

#define RECORD(s) ((struct record){s, sizeof(s) - 1})

static void test_record(void)
{
	struct service s;
	const char *what;

	OK(record_parse(RECORD("arg\0/bin/sh\0env\0A=b\0arg\0-c\0cwd\0/srv\0user\0app:\0"
			       "restart\0on-failure\0restart-max\0003\0stop-signal\0002\0"
			       "limit\0nofile 10 -1\0addresses\0002\0hostname\0x\0"),
		   &s, &what) == 0);
	STR_IS(s.argv[0], "/bin/sh");
	STR_IS(s.argv[1], "-c");
	OK(!s.argv[2]);
	STR_IS(s.env[0], "A=b");
	OK(!s.env[1]);
	STR_IS(s.cwd, "/srv");
	STR_IS(s.user, "app:");
	OK(s.restart == RESTART_ON_FAILURE && s.restart_max == 3 && s.stop_signal == 2);
	OK(s.n_limits == 1 && s.limits[0].resource == RLIMIT_NOFILE);
	OK(s.limits[0].value.rlim_cur == 10 && s.limits[0].value.rlim_max == RLIM_INFINITY);
	OK(s.addresses == 2);
	service_free(&s);
	OK(record_parse(RECORD(""), &s, &what) == 0);
	OK(!s.argv[0]);
	STR_IS(s.cwd, "/");
	service_free(&s);
}

static void test_bad_records(void)
{
	static const struct record bad[] = {RECORD("arg"), RECORD("arg\0x"), RECORD("cwd\0x\0"),
		RECORD("user\0\0"), RECORD("restart\0maybe\0"), RECORD("stop-signal\0000\0"),
		RECORD("stop-signal\0word\0"), RECORD("limit\0nofile\0"),
		RECORD("limit\0nofile 1\0"), RECORD("limit\0nofiles 1 2\0"),
		RECORD("addresses\00099999999999999999999\0")};
	struct service s;
	const char *what;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(record_parse(bad[i], &s, &what) == EINVAL);
}

static const uint8_t mac[6] = {2, 3, 4, 5, 6, 7};

/* A server's answer to what a client has asked. */
static size_t answer(uint8_t out[DHCP_PACKET_MAX], uint8_t type)
{
	struct dhcp_ask ask = {.type = DHCP_DISCOVER, .xid = 77};
	static const uint8_t options[] = {1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 0, 1, 6, 8, 10, 0, 0,
		2, 10, 0, 0, 3, 51, 4, 0, 0, 1, 0, 54, 4, 10, 0, 0, 9, 15, 4, 'i', 'n', 't', 0,
		255};

	memcpy(ask.mac, mac, sizeof(mac));
	dhcp_write(&ask, out);
	out[0] = 2;
	memcpy(out + 16, "\x0a\0\0\x0a", 4);
	out[240] = 53;
	out[241] = 1;
	out[242] = type;
	memcpy(out + 243, options, sizeof(options));
	return 243 + sizeof(options);
}

static void test_dhcp(void)
{
	uint8_t p[DHCP_PACKET_MAX];
	struct dhcp_answer a;
	size_t len = answer(p, DHCP_OFFER);

	OK(dhcp_read(p, len, 77, mac, &a));
	OK(a.type == DHCP_OFFER && a.address == inet_addr("10.0.0.10"));
	OK(a.mask == inet_addr("255.255.255.0") && a.router == inet_addr("10.0.0.1"));
	OK(a.n_dns == 2 && a.dns[1] == inet_addr("10.0.0.3"));
	OK(a.lease == 256 && a.server == inet_addr("10.0.0.9"));
	STR_IS(a.domain, "int");
	OK(!dhcp_read(p, len, 78, mac, &a));
	OK(!dhcp_read(p, len, 77, (const uint8_t *)"\1\1\1\1\1\1", &a));
	OK(!dhcp_read(p, 240, 77, mac, &a));
	for (size_t n = 0; n < len; n++)
		dhcp_read(p, n, 77, mac, &a); /* the sanitizer looks */
	len = answer(p, DHCP_ACK);
	p[len - 3] = '\n'; /* not a letter of a name */
	OK(dhcp_read(p, len, 77, mac, &a));
	STR_IS(a.domain, "");
	answer(p, 99);
	OK(!dhcp_read(p, len, 77, mac, &a));
}

static void test_ask(void)
{
	struct dhcp_ask ask = {.type = DHCP_REQUEST,
		.xid = 1,
		.requested = inet_addr("10.0.0.10"),
		.server = inet_addr("10.0.0.9")};
	uint8_t p[DHCP_PACKET_MAX];
	size_t len = dhcp_write(&ask, p);

	OK(len == DHCP_PACKET_MIN);
	OK(p[0] == 1 && p[10] == 0x80 && memcmp(p + 236, "\x63\x82\x53\x63\x35\1\3", 7) == 0);
	OK(memmem(p, len, "\x32\4\x0a\0\0\x0a", 6) && memmem(p, len, "\x36\4\x0a\0\0\x09", 6));
	ask.client = inet_addr("10.0.0.10");
	dhcp_write(&ask, p);
	OK(p[10] == 0 && memcmp(p + 12, "\x0a\0\0\x0a", 4) == 0);
}

static void test_ring(void)
{
	static char text[RING_BYTES / 2 + 1000], out[RING_BYTES];
	uint64_t at = 0, lost;
	struct ring r;

	OK(ring_open(&r) == 0);
	ring_put(&r, "hello", 5);
	OK(ring_get(&r, &at, out, sizeof(out), &lost) == 5 && lost == 0);
	OK(memcmp(out, "hello", 5) == 0);
	OK(ring_get(&r, &at, out, sizeof(out), &lost) == 0);
	memset(text, 'a', sizeof(text));
	ring_put(&r, text, sizeof(text));
	memset(text, 'b', sizeof(text));
	ring_put(&r, text, sizeof(text));
	OK(ring_get(&r, &at, out, sizeof(out), &lost) == RING_BYTES);
	OK(lost == 2 * sizeof(text) - RING_BYTES && out[0] == 'a' && out[RING_BYTES - 1] == 'b');
	at = r.end - 3;
	OK(ring_get(&r, &at, out, 2, &lost) == 2 && at == r.end - 1);
	at = r.end + 5;
	OK(ring_get(&r, &at, out, 2, &lost) == 0 && at == r.end);
}

int main(void)
{
	test_record();
	test_bad_records();
	test_dhcp();
	test_ask();
	test_ring();
	return tap_done();
}
