/* dns-upstream.h - what DNS by UDP and by TCP have in common when they ask upstream servers: which
 * servers, and what the guest may get of an answer. For the holder's main thread. */
#pragma once

#include <sys/socket.h>

#include "net/holder/netns.h"
#include "net/holder/state.h"
#include "net/dns/zone.h"

/* The host's resolvers. Call it for each question: they change when a laptop moves. */
unsigned dns_servers(const struct holder *h, struct sockaddr_storage servers[DNS_SERVERS_MAX]);
/* Writes a query with a random id. */
int dns_new_query(const struct dns_question *q, uint16_t *ret_id, struct buf *ret, struct err *e);
/* Opens the addresses of a name, before the guest learns them. False: the guest must not learn
 * them. */
bool dns_admit(struct holder *h, struct zone *z, const char *name, const struct dns_answer *a);
