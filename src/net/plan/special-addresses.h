/* special-addresses.h - IPv4 networks that egress must not reach by default: special-purpose and
 * private ones. Pure. */
#pragma once

#include <stddef.h>

#include "spec/net-addr.h"

/* Link-local, metadata services, multicast and the like: no policy can allow them. */
extern const struct ipv4_net net_forbidden[];
extern const size_t net_n_forbidden;
/* Private networks, which may be the host's own: only a policy that names a part of one allows that
 * part. */
extern const struct ipv4_net net_private[];
extern const size_t net_n_private;

bool net_is_forbidden(uint32_t addr);
/* Whether the whole network lies in a private one. */
bool net_is_private(struct ipv4_net net);
