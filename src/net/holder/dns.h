/* dns.h - the DNS server of a sandbox: one zone for each vnet, on moat's addresses there. Asks the
 * host's own resolvers for names that the policy allows. For the holder's main thread. */
#pragma once

#include <poll.h>

#include "net/holder/state.h"

struct dns;

int dns_start(struct holder *h, struct dns **ret, struct err *e);
/* Adds the fds that the server waits for; returns their number. */
enum { DNS_POLL_MAX = 2800 };
unsigned dns_poll(const struct dns *d, struct pollfd *fds);
/* Milliseconds until dns_serve must be called even if no fd is ready; -1: never. */
int dns_timeout(const struct dns *d);
/* Serves what is ready in fds, which dns_poll filled. Never fails: a query that cannot be served is
 * refused. */
void dns_serve(struct dns *d, const struct pollfd *fds);
/* All refusals, as a list. NULL: out of memory. */
json_t *dns_refusals(const struct dns *d);
