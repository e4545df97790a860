/* bulk.h - a request to the runner that is too large for memory: it goes to the guest on discs
 * (disc.h) while it is being made. Used by one thread. */
#pragma once

#include "driver/proxmox/guest/disc.h"
#include "driver/proxmox/guest/runner.h"

struct pve_bulk {
	struct pve_runner *runner;
	struct pve_disc *disc;
	struct pve_spooled request; /* in the guest's spool so far, with what is in content */
	char *path;
	struct pve_disc_content content; /* what goes onto the next disc */
};

/* Needs a drive that works (pve_disc_room), and a runner that is installed. */
int pve_bulk_begin(struct pve_bulk *b, struct pve_runner *r, struct pve_disc *d, struct err *e);
int pve_bulk_add(struct pve_bulk *b, const struct op *op, struct bytes data, struct err *e);
/* Sends the rest of the request, then does what pve_runner_do does. */
int pve_bulk_do(struct pve_bulk *b, const struct op *op, double timeout, struct buf *ret_frames,
	struct err *e);
void pve_bulk_end(struct pve_bulk *b);
#define auto_bulk __attribute__((cleanup(pve_bulk_end)))
