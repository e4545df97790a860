/* ranges.h - chooses IP networks for a sandbox that no other network on the node overlaps. Used by
 * the thread that makes the sandbox's networks. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* With networks "auto", claims a range and fills auto_subnet. Otherwise checks what the spec gives,
 * and waits while one of its networks is still being removed from the server. */
int pve_ranges_choose(struct pve_sandbox *b, const struct op *op, struct err *e);
