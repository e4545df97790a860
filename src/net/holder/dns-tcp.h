/* dns-tcp.h - DNS by TCP, for answers that are too long for UDP. Same zones and policy as dns.h.
 * For the holder's main thread. */
#pragma once

#include <poll.h>

#include "net/holder/dns-upstream.h"

struct dns_tcp;

enum { DNS_TCP_CONNS = 64, DNS_TCP_LISTENERS = 1100 };
enum { DNS_TCP_POLL_MAX = DNS_TCP_LISTENERS + 2 * DNS_TCP_CONNS };

int dns_tcp_new(struct holder *h, struct dns_tcp **ret, struct err *e);
/* Takes a listening, non-blocking socket. The zone must outlive t. */
int dns_tcp_add(struct dns_tcp *t, int fd, struct zone *z, struct err *e);
/* Like dns_poll and dns_serve. The deadline is a time of now_ns, INT64_MAX: none. */
unsigned dns_tcp_poll(const struct dns_tcp *t, struct pollfd *fds);
int64_t dns_tcp_deadline(const struct dns_tcp *t);
void dns_tcp_serve(struct dns_tcp *t, const struct pollfd *fds);
