#include "spec/net-addr.h"

#include <stdio.h>
#include <string.h>

#include "util/str.h"

/* Text that fails to parse is shown in the message: no more of it than this, and escaped. */
#define SHOWN_MAX         64
#define DOTTED_MAC_LENGTH 14 /* "5254.0012.3456" */

static int bad_text(const char *s, const char *wanted, struct err *e)
{
	char shown[SHOWN_MAX];

	str_escape(s, strlen(s), shown, sizeof(shown));
	if (strchr(s, ':') && !strpbrk(s, "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"))
		return err_set(e, ERR_INVALID,
			"\"%s\" looks like IPv6; only IPv4 is supported for now", shown);
	return err_set(e, ERR_INVALID, "\"%s\" is not %s", shown, wanted);
}

/* At most max_digits decimal digits without a leading zero; NULL if they are not there. */
static const char *read_number(const char *s, unsigned max_digits, unsigned *ret)
{
	unsigned value = 0, digits = 0;

	while (s[digits] >= '0' && s[digits] <= '9') {
		if (++digits > max_digits || (digits > 1 && s[0] == '0'))
			return NULL;
		value = value * 10 + (unsigned)(s[digits - 1] - '0');
	}
	if (digits == 0)
		return NULL;
	*ret = value;
	return s + digits;
}

/* The rest of the text after the address; NULL if there is none. */
static const char *read_ipv4(const char *s, uint32_t *ret)
{
	uint32_t addr = 0;

	for (int i = 0; i < 4; i++) {
		unsigned octet;

		if (i > 0 && *s++ != '.')
			return NULL;
		s = read_number(s, 3, &octet);
		if (!s || octet > 255)
			return NULL;
		addr = addr << 8 | octet;
	}
	*ret = addr;
	return s;
}

int ipv4_parse(const char *s, uint32_t *ret, struct err *e)
{
	uint32_t addr;
	const char *end = read_ipv4(s, &addr);

	if (!end || *end)
		return bad_text(s, "an IPv4 address such as 10.0.0.5", e);
	if (addr == 0)
		return err_set(e, ERR_INVALID, "0.0.0.0 is not the address of a machine");
	*ret = addr;
	return 0;
}

int ipv4_net_parse(const char *s, struct ipv4_net *ret, struct err *e)
{
	const char *wanted = "an IPv4 network such as 10.0.0.0/24";
	char given[IPV4_TEXT_MAX], network[IPV4_TEXT_MAX];
	uint32_t addr;
	unsigned prefix;
	const char *end = read_ipv4(s, &addr);

	if (!end)
		return bad_text(s, wanted, e);
	if (!*end)
		return err_set(e, ERR_INVALID,
			"\"%s\" has no prefix length, such as /24; /32 is one address", s);
	if (*end != '/')
		return bad_text(s, wanted, e);
	end = read_number(end + 1, 2, &prefix);
	if (!end || *end || prefix > 32)
		return bad_text(s, wanted, e);
	if (addr & ~ipv4_mask(prefix))
		return err_set(e, ERR_INVALID,
			"%s is an address in the network, not the network: write %s/%u",
			ipv4_text(addr, given), ipv4_text(addr & ipv4_mask(prefix), network),
			prefix);
	*ret = (struct ipv4_net){.addr = addr, .prefix = prefix};
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool read_mac(const char *s, struct mac_addr *ret)
{
	const bool dotted = strlen(s) == DOTTED_MAC_LENGTH;
	const size_t group = dotted ? 2 : 1; /* bytes between two separators */
	const char *separator = s + 2 * group;

	if (!dotted && strlen(s) != MAC_TEXT_MAX - 1)
		return false;
	if (!strchr(dotted ? "." : ":-", *separator))
		return false;
	for (size_t i = 0; i < sizeof(ret->b); i++) {
		int high, low;

		if (i > 0 && i % group == 0 && *s++ != *separator)
			return false;
		high = hex_digit(*s++);
		if (high < 0)
			return false;
		low = hex_digit(*s++);
		if (low < 0)
			return false;
		ret->b[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

int mac_parse(const char *s, struct mac_addr *ret, struct err *e)
{
	char shown[SHOWN_MAX];
	struct mac_addr mac;

	str_escape(s, strlen(s), shown, sizeof(shown));
	if (!read_mac(s, &mac))
		return err_set(e, ERR_INVALID,
			"\"%s\" is not a MAC address such as 52:54:00:12:34:56", shown);
	if (mac.b[0] & 1)
		return err_set(e, ERR_INVALID,
			"%s is a multicast address; the second digit of a machine's MAC is even",
			shown);
	if (!mac_is_set(mac))
		return err_set(e, ERR_INVALID, "%s is not the address of a machine", shown);
	*ret = mac;
	return 0;
}

const char *ipv4_text(uint32_t addr, char out[static IPV4_TEXT_MAX])
{
	snprintf(out, IPV4_TEXT_MAX, "%u.%u.%u.%u", addr >> 24, addr >> 16 & 255, addr >> 8 & 255,
		addr & 255);
	return out;
}

const char *ipv4_net_text(struct ipv4_net net, char out[static NET_TEXT_MAX])
{
	char addr[IPV4_TEXT_MAX];

	snprintf(out, NET_TEXT_MAX, "%s/%u", ipv4_text(net.addr, addr), net.prefix % 100);
	return out;
}

const char *mac_text(struct mac_addr mac, char out[static MAC_TEXT_MAX])
{
	snprintf(out, MAC_TEXT_MAX, "%02x:%02x:%02x:%02x:%02x:%02x", mac.b[0], mac.b[1], mac.b[2],
		mac.b[3], mac.b[4], mac.b[5]);
	return out;
}

uint32_t ipv4_mask(unsigned prefix)
{
	return prefix == 0 ? 0 : UINT32_MAX << (32 - prefix);
}

uint32_t ipv4_net_last(struct ipv4_net net)
{
	return net.addr | ~ipv4_mask(net.prefix);
}

bool ipv4_net_has(struct ipv4_net net, uint32_t addr)
{
	return (addr & ipv4_mask(net.prefix)) == net.addr;
}

bool ipv4_net_overlaps(struct ipv4_net a, struct ipv4_net b)
{
	/* Of two networks that share an address one lies in the other. */
	return ipv4_net_has(a, b.addr) || ipv4_net_has(b, a.addr);
}

bool mac_is_set(struct mac_addr mac)
{
	return !mac_equal(mac, (struct mac_addr){{0}});
}

bool mac_equal(struct mac_addr a, struct mac_addr b)
{
	return memcmp(a.b, b.b, sizeof(a.b)) == 0;
}
