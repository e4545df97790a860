/* pve-bulk.h - a request to the runner that is too large to be in memory: it goes to the guest on
 * discs (pve-disc.h) while it is being made. Used by one thread. */
#pragma once

#include "guest/pve-disc.h"
#include "guest/pve-runner.h"

struct pve_bulk {
	struct pve_runner *runner;
	struct pve_disc *disc;
	struct pve_taken request; /* so far */
	char *place;
	struct pve_cargo cargo; /* what is not in the guest yet */
};

/* A drive that works, and a runner that is installed. */
int pve_bulk_begin(struct pve_bulk *b, struct pve_runner *r, struct pve_disc *d, struct err *e);
int pve_bulk_add(struct pve_bulk *b, const struct op *op, struct bytes data, struct err *e);
/* The rest of it, and then as pve_runner_do. */
int pve_bulk_do(struct pve_bulk *b, const struct op *op, double timeout, struct buf *ret_frames,
	struct err *e);
void pve_bulk_end(struct pve_bulk *b);
#define auto_bulk __attribute__((cleanup(pve_bulk_end)))
