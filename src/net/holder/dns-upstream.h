/*
 * dns-ask.h - what asking the outside by UDP and by TCP have in common: whom to ask, and what of
 * the answer may be told. For the holder's main thread.
 */
#pragma once

#include <sys/socket.h>

#include "net/holder-state.h"
#include "net/zone.h"

enum { DNS_SERVERS_MAX = 3, DNS_PORT = 53 }; /* as many as the host's own resolver would use */

/* The host's resolvers, read each time: they change when a laptop moves. */
unsigned dns_servers(struct sockaddr_storage servers[DNS_SERVERS_MAX]);
/* A number that nobody can guess, for a question that is about to be sent. */
bool dns_new_id(uint8_t *query, uint16_t *ret_id);
/* Opens what a name leads to, before the guest learns of it. False: it must not learn of it. */
bool dns_admit(struct holder *h, struct zone *z, const char *name, const struct dns_answer *a);
