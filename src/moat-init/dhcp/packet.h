/* packet.h - DHCP messages (RFC 2131, RFC 2132), as a client sends and reads them. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dhcp_type { DHCP_DISCOVER = 1, DHCP_OFFER, DHCP_REQUEST, DHCP_DECLINE, DHCP_ACK, DHCP_NAK };
enum { DHCP_DNS_MAX = 3, DHCP_PACKET_MAX = 1500, DHCP_PACKET_MIN = 300, DHCP_DOMAIN_MAX = 256 };

/* Addresses are in the order of the net, as the kernel takes them. */
struct dhcp_ask {
	enum dhcp_type type;
	uint32_t xid;
	uint8_t mac[6];
	uint32_t client;    /* the address that is in use; 0: none yet */
	uint32_t requested; /* of an offer; 0: none */
	uint32_t server;    /* who offered it; 0: any */
};

struct dhcp_answer {
	enum dhcp_type type;
	uint32_t address, mask, router, server;
	uint32_t dns[DHCP_DNS_MAX];
	size_t n_dns;
	uint32_t lease, renew, rebind; /* seconds; 0: not told */
	char domain[DHCP_DOMAIN_MAX];  /* "": none. Has only letters of host names */
};

/* Returns the length. */
size_t dhcp_write(const struct dhcp_ask *ask, uint8_t out[DHCP_PACKET_MAX]);
/* False: it is no answer to the one that asked with this number and address. */
bool dhcp_read(
	const uint8_t *p, size_t len, uint32_t xid, const uint8_t mac[6], struct dhcp_answer *ret);
