/* never.h - addresses that are not the outside's. Pure. */
#pragma once

#include <stddef.h>

#include "spec/net-addr.h"

/* Link-local, metadata services, multicast and the like: no policy leads there. */
extern const struct ipv4_net net_never[];
extern const size_t net_n_never;
/* The laboratory's own: only a policy that names a part of them leads there. */
extern const struct ipv4_net net_private[];
extern const size_t net_n_private;

bool net_is_never(uint32_t addr);
/* The whole network lies in a private one. */
bool net_is_private(struct ipv4_net net);
