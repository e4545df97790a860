/* tcp.h - DNS by TCP, for answers that are too long for UDP. Same zones and policy as udp.h. For
 * the one thread of net-dns. */
#pragma once

#include <poll.h>

#include "net/dns/server/asking.h"

struct dns_tcp;

enum { DNS_TCP_CONNS = 64 };
enum { DNS_TCP_POLL_MAX = DNS_LISTENERS_MAX + 2 * DNS_TCP_CONNS };

int dns_tcp_new(struct dns_server *s, struct dns_tcp **ret, struct err *e);
/* Takes a listening, non-blocking socket. The zone must outlive t. */
void dns_tcp_add(struct dns_tcp *t, int fd, struct zone *z);
/* These do for TCP what dns_udp_poll, dns_udp_deadline and dns_udp_serve do for UDP. */
unsigned dns_tcp_poll(const struct dns_tcp *t, struct pollfd *fds);
int64_t dns_tcp_deadline(const struct dns_tcp *t);
void dns_tcp_serve(struct dns_tcp *t, const struct pollfd *fds);
