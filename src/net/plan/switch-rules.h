/* switch-rules.h - the rules for frames between the NICs of a vnet, as text for `nft`. Pure. */
#pragma once

#include "net/plan/plan.h"
#include "util/buf.h"

/*
 * Drops VLAN tags of NICs that may not send any and frames of NICs that claim to be the gate's, and
 * bounds what bridges learn. A bridge learns the MAC address of each frame, without a limit, into
 * memory of the host's kernel. The addresses of the spec always pass. Each NIC can have some more,
 * for VMs inside of VMs, routers and bonds.
 */
int switch_rules(const struct net_plan *p, struct buf *ret, struct err *e);
