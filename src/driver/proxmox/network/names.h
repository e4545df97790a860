/*
 * names.h - names of zones and vnets. A node keeps a file of each zone's name that it ever had,
 * which no call removes; so an installation uses the same few names again and again. Any thread.
 */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Chooses names for the sandbox's zone and vnets that nobody has on the site, and journals the
 * zone: as long as the journal has it, no other sandbox gets the name. */
int pve_names_take(struct pve_sandbox *b, const struct op *op, struct err *e);
/* The zone is gone, or was never made: another sandbox may have its name. */
void pve_names_give(struct pve_site *site, const char *zone);
