/* net-addr.h - IPv4 addresses, networks and MAC addresses: text to numbers and back. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "util/err.h"

/* Addresses are in host byte order throughout. 0 (0.0.0.0) stands for "none": it is never valid. */
struct ipv4_net {
	uint32_t addr; /* the network's own address: no host bits */
	unsigned prefix;
};

struct mac_addr {
	uint8_t b[6]; /* all zero: none */
};

#define IPV4_TEXT_MAX 16 /* "255.255.255.255" and its NUL */
#define NET_TEXT_MAX  19 /* the same with "/32" */
#define MAC_TEXT_MAX  18

/* Four decimal numbers, no leading zeros (they mean octal elsewhere). IPv6 is refused by name. */
int ipv4_parse(const char *s, uint32_t *ret, struct err *e);
/* "10.0.0.0/24"; host bits that are set are refused, and the message gives the network's address.
 */
int ipv4_net_parse(const char *s, struct ipv4_net *ret, struct err *e);
/* Six pairs of hex digits with ":" or "-" between them, or three groups of four with "." between
 * them. Multicast and all-zero addresses are refused. */
int mac_parse(const char *s, struct mac_addr *ret, struct err *e);

/* Write into the caller's array and return it. */
const char *ipv4_text(uint32_t addr, char out[static IPV4_TEXT_MAX]);
const char *ipv4_net_text(struct ipv4_net net, char out[static NET_TEXT_MAX]);
const char *mac_text(struct mac_addr mac, char out[static MAC_TEXT_MAX]);

uint32_t ipv4_mask(unsigned prefix);
uint32_t ipv4_net_last(struct ipv4_net net); /* the broadcast address */
bool ipv4_net_has(struct ipv4_net net, uint32_t addr);
bool ipv4_net_overlaps(struct ipv4_net a, struct ipv4_net b);
bool mac_is_set(struct mac_addr mac);
bool mac_equal(struct mac_addr a, struct mac_addr b);
