#include "moat-init/dhcp/packet.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

/* Where fields are. */
enum {
	AT_OP = 0,
	AT_HARDWARE = 1,
	AT_XID = 4,
	AT_FLAGS = 10,
	AT_CLIENT = 12,
	AT_YOURS = 16,
	AT_MAC = 28,
	AT_COOKIE = 236,
	AT_OPTIONS = 240,
};
enum { OP_ASK = 1, OP_ANSWER = 2, ETHERNET = 1, MAC_LEN = 6, BROADCAST = 0x80 };
enum {
	PAD = 0,
	MASK = 1,
	ROUTER = 3,
	DNS = 6,
	DOMAIN = 15,
	REQUESTED = 50,
	LEASE = 51,
	TYPE = 53,
	SERVER = 54,
	WANTED = 55,
	RENEW = 58,
	REBIND = 59,
	CLIENT_ID = 61,
	END = 255,
};
static const uint8_t cookie[] = {99, 130, 83, 99};

static uint8_t *put(uint8_t *at, uint8_t option, const void *p, size_t len)
{
	*at++ = option;
	*at++ = (uint8_t)len;
	memcpy(at, p, len);
	return at + len;
}

size_t dhcp_write(const struct dhcp_ask *ask, uint8_t out[DHCP_PACKET_MAX])
{
	static const uint8_t wanted[] = {MASK, ROUTER, DNS, DOMAIN, LEASE, RENEW, REBIND};
	uint8_t id[1 + MAC_LEN] = {ETHERNET}, type = (uint8_t)ask->type, *at = out + AT_OPTIONS;
	uint32_t xid = htonl(ask->xid);

	memset(out, 0, DHCP_PACKET_MAX);
	out[AT_OP] = OP_ASK;
	out[AT_HARDWARE] = ETHERNET;
	out[AT_HARDWARE + 1] = MAC_LEN;
	memcpy(out + AT_XID, &xid, sizeof(xid));
	/* Without an address, only what is sent to all arrives. */
	out[AT_FLAGS] = ask->client ? 0 : BROADCAST;
	memcpy(out + AT_CLIENT, &ask->client, sizeof(ask->client));
	memcpy(out + AT_MAC, ask->mac, MAC_LEN);
	memcpy(out + AT_COOKIE, cookie, sizeof(cookie));
	at = put(at, TYPE, &type, 1);
	memcpy(id + 1, ask->mac, MAC_LEN);
	at = put(at, CLIENT_ID, id, sizeof(id));
	if (ask->requested)
		at = put(at, REQUESTED, &ask->requested, sizeof(ask->requested));
	if (ask->server)
		at = put(at, SERVER, &ask->server, sizeof(ask->server));
	at = put(at, WANTED, wanted, sizeof(wanted));
	*at++ = END;
	return at - out < DHCP_PACKET_MIN ? DHCP_PACKET_MIN : (size_t)(at - out);
}

static bool read_word(const uint8_t *p, size_t len, uint32_t *ret)
{
	if (len < sizeof(*ret))
		return false;
	memcpy(ret, p, sizeof(*ret));
	return true;
}

static void read_seconds(const uint8_t *p, size_t len, uint32_t *ret)
{
	uint32_t word;

	if (read_word(p, len, &word))
		*ret = ntohl(word);
}

/* It goes into a file that programs read: only what a name is made of. */
static void read_domain(const uint8_t *p, size_t len, char ret[DHCP_DOMAIN_MAX])
{
	while (len && !p[len - 1])
		len--;
	if (len >= DHCP_DOMAIN_MAX)
		return;
	for (size_t i = 0; i < len; i++)
		if (p[i] > 127 || !(isalnum(p[i]) || strchr("-._", p[i])) || !p[i])
			return;
	memcpy(ret, p, len);
	ret[len] = 0;
}

static void read_option(uint8_t option, const uint8_t *p, size_t len, struct dhcp_answer *ret)
{
	switch (option) {
	case TYPE:
		if (len == 1 && *p >= DHCP_DISCOVER && *p <= DHCP_NAK)
			ret->type = (enum dhcp_type) * p;
		return;
	case MASK:
		read_word(p, len, &ret->mask);
		return;
	case ROUTER:
		read_word(p, len, &ret->router);
		return;
	case SERVER:
		read_word(p, len, &ret->server);
		return;
	case DNS:
		while (ret->n_dns < DHCP_DNS_MAX && read_word(p, len, &ret->dns[ret->n_dns])) {
			ret->n_dns++;
			p += sizeof(uint32_t);
			len -= sizeof(uint32_t);
		}
		return;
	case DOMAIN:
		read_domain(p, len, ret->domain);
		return;
	case LEASE:
		read_seconds(p, len, &ret->lease);
		return;
	case RENEW:
		read_seconds(p, len, &ret->renew);
		return;
	case REBIND:
		read_seconds(p, len, &ret->rebind);
		return;
	default:
		return;
	}
}

bool dhcp_read(
	const uint8_t *p, size_t len, uint32_t xid, const uint8_t mac[6], struct dhcp_answer *ret)
{
	uint32_t number = htonl(xid);
	struct dhcp_answer a = {0};
	size_t at = AT_OPTIONS;

	if (len < AT_OPTIONS || p[AT_OP] != OP_ANSWER ||
		memcmp(p + AT_XID, &number, sizeof(number)) != 0 ||
		memcmp(p + AT_MAC, mac, MAC_LEN) != 0 ||
		memcmp(p + AT_COOKIE, cookie, sizeof(cookie)) != 0)
		return false;
	memcpy(&a.address, p + AT_YOURS, sizeof(a.address));
	while (at < len && p[at] != END) {
		size_t n;

		if (p[at] == PAD) {
			at++;
			continue;
		}
		if (len - at < 2 || len - at - 2 < p[at + 1])
			return false;
		n = p[at + 1];
		read_option(p[at], p + at + 2, n, &a);
		at += 2 + n;
	}
	if (!a.type)
		return false;
	*ret = a;
	return true;
}
