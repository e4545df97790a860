/* show.h - what `moat net` tells of a sandbox on a server. Any thread. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* See net_show in driver.h. Leases are the server's word; for NICs in networks of the server's own,
 * the guest agent's. */
int pve_net_show(struct pve_sandbox *b, const struct op *op, json_t **ret, struct err *e);
