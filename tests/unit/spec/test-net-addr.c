#include "spec/net-addr.h"

#include "tap.h"
#include "util/auto.h"

static void test_addresses(void)
{
	const char *bad[] = {"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.04", "1.2.3.4 ",
		" 1.2.3.4", "1..3.4", "1.2.3.-4", "0x7f.0.0.1", "1.2.3.4/32", "0.0.0.0",
		"1.2.3.1000", "99999999999.1.1.1", "::1", "fe80::1"};
	char text[IPV4_TEXT_MAX];
	struct err e;
	uint32_t a = 7;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		tap_ok(ipv4_parse(bad[i], &a, &e) < 0 && e.kind == ERR_INVALID && a == 7,
			"\"%s\" is refused and leaves the result alone", bad[i]);
	OK(ipv4_parse("10.0.0.1", &a, &e) == 0 && a == 0x0a000001);
	OK(ipv4_parse("255.255.255.255", &a, &e) == 0 && a == UINT32_MAX);
	STR_IS(ipv4_text(a, text), "255.255.255.255");
	STR_IS(ipv4_text(0x0a010203, text), "10.1.2.3");
	ipv4_parse("fd00::1", &a, &e);
	STR_IS(e.msg, "\"fd00::1\" looks like IPv6; only IPv4 is supported for now");
}

static void test_networks(void)
{
	const char *bad[] = {"", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/024",
		"10.0.0.0/8x", "10.0.0.0/-1", "10.0.0/8", "10.0.0.1/24", "0.0.0.1/0", "fd00::/8",
		"10.0.0.0/999999999999"};
	char text[NET_TEXT_MAX];
	struct ipv4_net net = {7, 7};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		tap_ok(ipv4_net_parse(bad[i], &net, &e) < 0 && net.addr == 7,
			"\"%s\" is refused and leaves the result alone", bad[i]);
	ipv4_net_parse("192.168.7.9/20", &net, &e);
	STR_IS(e.msg, "192.168.7.9 is an address in the network, not the network: write "
		      "192.168.0.0/20");
	OK(ipv4_net_parse("0.0.0.0/0", &net, &e) == 0 && net.addr == 0 && net.prefix == 0);
	OK(ipv4_net_has(net, 0xffffffff) && ipv4_net_last(net) == UINT32_MAX);
	OK(ipv4_net_parse("1.2.3.4/32", &net, &e) == 0 && net.prefix == 32);
	OK(ipv4_net_has(net, 0x01020304) && !ipv4_net_has(net, 0x01020305));
	OK(ipv4_net_parse("10.0.0.0/24", &net, &e) == 0);
	OK(ipv4_net_last(net) == 0x0a0000ff);
	STR_IS(ipv4_net_text(net, text), "10.0.0.0/24");
	STR_IS(ipv4_net_text((struct ipv4_net){UINT32_MAX, 32}, text), "255.255.255.255/32");
	OK(ipv4_net_overlaps(net, (struct ipv4_net){0x0a000080, 25}));
	OK(ipv4_net_overlaps((struct ipv4_net){0x0a000080, 25}, net));
	OK(ipv4_net_overlaps(net, net));
	OK(!ipv4_net_overlaps(net, (struct ipv4_net){0x0a000100, 24}));
}

static void test_macs(void)
{
	const char *bad[] = {"", "52:54:00:12:34", "52:54:00:12:34:56:78", "52:54:00:12:34:5g",
		"52-54:00:12:34:56", "525400123456", "52:54:00:12:34:56 ", "5254.0012-3456",
		"5254.0012.345g", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00",
		"52.54.00.12.34.56"};
	char text[MAC_TEXT_MAX];
	struct mac_addr mac = {{9}};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		tap_ok(mac_parse(bad[i], &mac, &e) < 0 && mac.b[0] == 9,
			"\"%s\" is refused and leaves the result alone", bad[i]);
	OK(mac_parse("52:54:00:AB:cd:EF", &mac, &e) == 0);
	STR_IS(mac_text(mac, text), "52:54:00:ab:cd:ef");
	OK(mac_parse("52-54-00-ab-cd-ef", &mac, &e) == 0 && mac_is_set(mac));
	STR_IS(mac_text(mac, text), "52:54:00:ab:cd:ef");
	OK(mac_parse("5254.00AB.cdef", &mac, &e) == 0);
	STR_IS(mac_text(mac, text), "52:54:00:ab:cd:ef");
	OK(!mac_is_set((struct mac_addr){{0}}));
}

int main(void)
{
	test_addresses();
	test_networks();
	test_macs();
	return tap_done();
}
