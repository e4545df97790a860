/* dns.h - the holder's side of DNS: it keeps the process that answers guests (net/dns/server)
 * running, and judges and opens addresses for it. For the holder's main thread. */
#pragma once

#include "net/holder/state.h"

/* Starts the process, if a vnet has DNS. dns_wait waits until it answers. */
int dns_start(struct holder *h, struct err *e);
int dns_wait(struct holder *h, struct err *e);
/* Deals with one message of the process. */
void dns_serve(struct holder *h);
/* All refusals, as a list. NULL: out of memory. */
json_t *dns_refusals(const struct holder *h);
