/* udp.h - DNS by UDP: one socket for each address of moat's. For the one thread of net-dns. */
#pragma once

#include <poll.h>

#include "net/dns/server/asking.h"

struct dns_udp;

enum { DNS_UDP_PENDING = 256 }; /* questions that upstream servers have not answered yet */
enum { DNS_UDP_POLL_MAX = DNS_LISTENERS_MAX + DNS_UDP_PENDING };

int dns_udp_new(struct dns_server *s, struct dns_udp **ret, struct err *e);
/* Takes a bound, non-blocking socket. The zone must outlive u. */
void dns_udp_add(struct dns_udp *u, int fd, struct zone *z);
/* Adds the fds to wait for; returns their number. */
unsigned dns_udp_poll(const struct dns_udp *u, struct pollfd *fds);
/* When dns_udp_serve must be called even if no fd is ready: a time of now_ns, INT64_MAX: never. */
int64_t dns_udp_deadline(const struct dns_udp *u);
/* Serves what is ready in fds, which dns_udp_poll filled. Never fails: a query that cannot be
 * served is refused. */
void dns_udp_serve(struct dns_udp *u, const struct pollfd *fds);
