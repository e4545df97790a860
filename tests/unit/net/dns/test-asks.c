/* Messages of a DNS server that guests may have taken over: only those of one form are taken. */
#include "net/dns/asks.h"

#include <string.h>

#include "tap.h"

enum { ZONES = 3 };

static struct ask_open fine(void)
{
	return (struct ask_open){.number = 7,
		.zone = 2,
		.seconds = ASK_OPEN_MIN,
		.n = 2,
		.n_open = 1,
		.addrs = {0xcb00710a, 0xcb00710b}};
}

static bool taken(const struct ask_open *a, size_t len)
{
	static struct ask_open got;
	bool ok = ask_open_parse((struct bytes){(const uint8_t *)a, len}, ZONES, &got);

	return ok && memcmp(&got, a, len) == 0;
}

static void test_open(void)
{
	struct ask_open a = fine();
	size_t len = ask_open_size(&a);

	OK(taken(&a, len));
	OK(!taken(&a, len - 1) && !taken(&a, len + 1) && !taken(&a, len - 4) &&
		!taken(&a, len + 4));
	OK(!taken(&a, 0) && !taken(&a, offsetof(struct ask_open, addrs) - 1));
	a.zone = ZONES;
	OK(!taken(&a, len));
	a = fine();
	a.seconds = ASK_OPEN_MIN - 1;
	OK(!taken(&a, len));
	a.seconds = ASK_OPEN_MAX + 1;
	OK(!taken(&a, len));
	a = fine();
	a.n_open = 3;
	OK(!taken(&a, len));
	a = fine();
	a.n = a.n_open = DNS_ADDRS_MAX;
	OK(taken(&a, sizeof(a)));
	a.n = DNS_ADDRS_MAX + 1;
	OK(!taken(&a, sizeof(a)) && !taken(&a, sizeof(a) + 4));
	a.n = UINT32_MAX;
	OK(!taken(&a, sizeof(a)));
}

static void test_socket(void)
{
	struct ask_socket a = {.number = 7, .stream = 1, .attempt = 3}, got;
	const uint8_t *p = (const uint8_t *)&a;

	OK(ask_socket_parse((struct bytes){p, sizeof(a)}, &got) && got.attempt == 3);
	OK(!ask_socket_parse((struct bytes){p, sizeof(a) - 1}, &got));
	a.stream = 2;
	OK(!ask_socket_parse((struct bytes){p, sizeof(a)}, &got));
}

int main(void)
{
	test_open();
	test_socket();
	return tap_done();
}
