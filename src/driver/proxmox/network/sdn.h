/* sdn.h - applies changes of a server's SDN, and removes a sandbox's zone from it. Any thread. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Applies what is pending, and again until the node has the sandbox's zone. Threads that ask at
 * the same time share one apply. */
int pve_sdn_make(struct pve_sandbox *b, const struct op *op, struct err *e);
/* Removes a zone with all in it if it is the stamped sandbox's; fine if there is none. */
int pve_sdn_remove_zone(struct pve_site *site, const struct op *op, const char *zone,
	const char *stamp, struct err *e);
