/*
 * dns-msg.h - DNS messages: what a guest asks, what the world answers. Pure and bounded: both sides
 * may send anything.
 */
#pragma once

#include <stdbool.h>

#include "util/buf.h"

enum {
	DNS_NAME_MAX = 256,      /* as text, with its NUL */
	DNS_MESSAGE_MAX = 65535, /* as TCP counts them */
	DNS_UDP_MAX = 4096,      /* that we handle in one packet */
	DNS_ADDRS_MAX = 1024,    /* of one answer */
};

enum dns_type { DNS_A = 1, DNS_CNAME = 5, DNS_PTR = 12, DNS_AAAA = 28, DNS_ANY = 255 };
enum dns_rcode { DNS_OK = 0, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_question {
	uint16_t id;
	uint16_t type;
	/* Lower case, without the dot at the end. A byte that no host name has is written as "?",
	 * so such a name is nobody's. */
	char name[DNS_NAME_MAX];
	size_t end; /* where the question section ends */
};

/* A message's number, whatever else it is. */
void dns_set_id(uint8_t *message, uint16_t id);
/* One question of class IN; anything else is refused. */
int dns_parse_query(struct bytes in, struct dns_question *ret, struct err *e);

struct dns_answer {
	unsigned rcode;
	uint32_t addrs[DNS_ADDRS_MAX]; /* of A records anywhere in the message, host byte order */
	unsigned n_addrs;
	/* Those of them that answer an A or ANY question: the name's own, and its aliases'. */
	uint32_t named[DNS_ADDRS_MAX];
	unsigned n_named;
	uint32_t ttl; /* the shortest of named */
};

/* The answer to that question; one to another, or one that is broken, is refused. */
int dns_parse_answer(
	struct bytes in, const struct dns_question *q, struct dns_answer *ret, struct err *e);

/* An answer of our own to a query that was parsed: with an address (0: none), or with a name for
 * its PTR question (NULL: none). */
int dns_make_answer(struct bytes query, const struct dns_question *q, enum dns_rcode rcode,
	uint32_t addr, const char *name, struct buf *ret, struct err *e);

/* "example.org" is that name, "*.example.org" all below it and not itself. Case does not count. */
bool dns_name_matches(const char *name, const char *pattern);
/* The address that "4.3.2.1.in-addr.arpa" asks for; false if it is no such name. */
bool dns_reverse_name(const char *name, uint32_t *ret);
