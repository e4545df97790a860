/* sdn.h - applies changes of a server's SDN, and removes a sandbox's zone from it. Any thread. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Sees to it that the apply of this number (apply.h) is made, and others until the node has the
 * sandbox's zone. */
int pve_sdn_make(struct pve_sandbox *b, const struct op *op, uint64_t number, struct err *e);
/* Removes a zone with all in it if it is the stamped sandbox's; fine if there is none. */
int pve_sdn_remove_zone(struct pve_site *site, const struct op *op, const char *zone,
	const char *stamp, struct err *e);
