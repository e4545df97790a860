/* msg.h - DNS messages: guests' queries and upstream servers' answers. Pure and bounded: both may
 * contain anything. */
#pragma once

#include <stdbool.h>

#include "util/buf.h"

enum {
	DNS_NAME_MAX = 256,             /* as text, with its NUL */
	DNS_QUESTION_MAX = 255 + 2 + 2, /* bytes of a question: name, type, class */
	DNS_MESSAGE_MAX = 65535,        /* the most that TCP's length field allows */
	DNS_UDP_MAX = 4096,             /* longest message that we read from a UDP packet */
	DNS_ADDRS_MAX = 1024,           /* addresses in one answer */
};

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
	DNS_ANY = 255,
	DNS_CAA = 257,
};
enum dns_rcode { DNS_OK = 0, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_REFUSED = 5 };

/* What is kept of a guest's query. Nothing else of the query is used or sent anywhere. */
struct dns_question {
	uint16_t id;
	uint16_t type;
	bool recursion; /* the bit "recursion desired" */
	/* Lower case, without the final dot. A byte that no host name has becomes "?". */
	char name[DNS_NAME_MAX];
	/* The question as the guest wrote it, for the answer: a resolver may check that upper and
	 * lower case come back as it sent them. */
	uint8_t asked[DNS_QUESTION_MAX];
	size_t asked_len;
};

/* Parses a query with one question of class IN; anything else is refused. */
int dns_parse_query(struct bytes in, struct dns_question *ret, struct err *e);

/* Writes our own query to an upstream server: the question's name in lower case, its type, class
 * IN, and "recursion desired". Nothing else of the guest's query is in it. A name that is no host
 * name is refused. */
int dns_make_query(const struct dns_question *q, uint16_t id, struct buf *ret, struct err *e);

struct dns_answer {
	unsigned rcode;
	bool cut;                      /* the answer was too long for a UDP packet */
	uint16_t counts[2];            /* records in the sections "answer" and "authority" */
	uint32_t addrs[DNS_ADDRS_MAX]; /* of A records in both sections, host byte order */
	unsigned n_addrs;
	/* Those of them that answer an A question: the addresses of the name and of its aliases. */
	uint32_t named[DNS_ADDRS_MAX];
	unsigned n_named;
	uint32_t ttl; /* the shortest of named */
	size_t end;   /* where the section "authority" ends */
};

/* Parses an upstream server's answer to dns_make_query's message for question q. An answer to
 * another question, or a broken one, is refused. The section "additional" is not looked at. */
int dns_parse_answer(struct bytes in, const struct dns_question *q, uint16_t id,
	struct dns_answer *ret, struct err *e);

/* Turns an upstream server's message, which was parsed, into the answer to the guest, in place; the
 * length becomes a->end. The header is ours and the question is the guest's. The answer and
 * authority sections stay as they are; the additional one and everything behind it is left out. */
void dns_pass_on(const struct dns_answer *a, const struct dns_question *q, uint8_t *message);

/* Makes our own answer to a guest's question: with an address (0: none), or with a name for a PTR
 * question (NULL: none). */
int dns_make_answer(const struct dns_question *q, enum dns_rcode rcode, uint32_t addr,
	const char *name, struct buf *ret, struct err *e);

/* Whether the name, as in struct dns_question, has only bytes that host names have. */
bool dns_is_host_name(const char *name);
/* Pattern "example.org" matches that name, "*.example.org" all names below it, but not itself.
 * Upper and lower case are equal. */
bool dns_name_matches(const char *name, const char *pattern);
/* The address 1.2.3.4 of the name "4.3.2.1.in-addr.arpa"; false if it is no such name. */
bool dns_reverse_name(const char *name, uint32_t *ret);
