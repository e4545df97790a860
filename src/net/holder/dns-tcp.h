/*
 * dns-tcp.h - DNS by TCP, for answers that UDP cuts off: the same zones, the same policy. For the
 * holder's main thread.
 */
#pragma once

#include <poll.h>

#include "net/dns-ask.h"

struct dns_tcp;

enum { DNS_TCP_CONNS = 64, DNS_TCP_LISTENERS = 1100 };
enum { DNS_TCP_POLL_MAX = DNS_TCP_LISTENERS + 2 * DNS_TCP_CONNS };

int dns_tcp_new(struct holder *h, struct dns_tcp **ret, struct err *e);
/* Takes over a listening, non-blocking socket. The zone stays the caller's, for ever. */
int dns_tcp_add(struct dns_tcp *t, int fd, struct zone *z, struct err *e);
/* As in dns.h; the deadline is a time, INT64_MAX: none. */
unsigned dns_tcp_poll(const struct dns_tcp *t, struct pollfd *fds);
int64_t dns_tcp_deadline(const struct dns_tcp *t);
void dns_tcp_serve(struct dns_tcp *t, const struct pollfd *fds);
