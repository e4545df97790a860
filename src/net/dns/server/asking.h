/* asking.h - what DNS by UDP and by TCP have in common when they ask upstream servers: sockets to
 * these, and what the guest may get of an answer. For the one thread of net-dns. */
#pragma once

#include "net/dns/zone.h"

enum { DNS_LISTENERS_MAX = 1100 };

struct dns_server {
	struct zone *zones;
	unsigned n_zones;
	int holder;      /* a socket: struct ask_open, struct ask_opened */
	int outside;     /* a socket: struct ask_socket; -1: nothing leads out */
	uint32_t number; /* of the last message to either: answers repeat it */
};

enum { ASKING_NEXT = -1, ASKING_NOBODY = -2 };

/* A socket to one of the host's resolvers. They may have changed since the last time: a laptop
 * moves. ASKING_NEXT: to none this time, try the next; ASKING_NOBODY: nor will there be. */
int asking_socket(struct dns_server *s, bool stream, unsigned attempt);
/* Writes a query with a random id. */
int dns_new_query(const struct dns_question *q, uint16_t *ret_id, struct buf *ret, struct err *e);
/* Has the addresses of a name opened, before the guest learns them. False: the guest must not learn
 * them. */
bool asking_admit(
	struct dns_server *s, struct zone *z, const char *name, const struct dns_answer *a);
