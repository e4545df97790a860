/*
 * cleaner.h - the cleaner: a thread that removes, in the background, what the journal has of
 * sandboxes that are gone. Any thread; stop it before the driver is freed.
 */
#pragma once

#include "driver/proxmox/site/state.h"

/* Fine if it runs already. */
int pve_cleaner_start(struct pve_driver *d, struct err *e);
/* There is something to remove; starts it if need be. */
void pve_cleaner_wake(struct pve_driver *d);
void pve_cleaner_stop(struct pve_driver *d); /* fine if it does not run */
