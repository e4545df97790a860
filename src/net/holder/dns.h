/*
 * dns.h - the DNS server of a sandbox: one zone for each vnet, listening on moat's addresses there;
 * asks the host's own resolvers for what the policy allows. For the holder's main thread.
 */
#pragma once

#include <poll.h>

#include "net/holder-state.h"

struct dns;

int dns_start(struct holder *h, struct dns **ret, struct err *e);
/* Adds what it waits for; the number of fds. */
enum { DNS_POLL_MAX = 2800 };
unsigned dns_poll(const struct dns *d, struct pollfd *fds);
/* Milliseconds until it has to be served without anything having happened; -1: never. */
int dns_timeout(const struct dns *d);
/* Serves what is ready: fds as dns_poll filled them. Never fails: what goes wrong is refused. */
void dns_serve(struct dns *d, const struct pollfd *fds);
/* Every refusal, as a list. NULL: out of memory. */
json_t *dns_refusals(const struct dns *d);
