/*
 * pve-disc.h - large things for a guest go in on discs: an ISO image is uploaded to the server, put
 * into a drive that the VM has had since it started, copied by the runner into its spool
 * (runner/disc.h), and removed. A drive serves one at a time. Any thread.
 */
#pragma once

#include "guest/pve-agent.h"
#include "guest/pve-guest.h"
#include "util/sha256.h"

enum {
	/* From here on a disc is faster than pieces through the agent: it costs a dozen calls, 1
	 * MiB in pieces 23. */
	PVE_DISC_FROM = 1024 * 1024,
	/* What can still be sent in pieces if the disc does not work. */
	PVE_PIECES_MAX = 48 * 1024 * 1024,
};

struct pve_disc;

/* Borrows both. */
int pve_disc_new(struct pve_agent *agent, const struct pve_guest_vm *vm, struct pve_disc **ret,
	struct err *e);
void pve_disc_free(struct pve_disc *d); /* NULL is fine */

/* How much the next disc may hold; 0: there is no drive, or it was just seen not to work. */
uint64_t pve_disc_room(struct pve_disc *d);

/* Keeps the drive empty, for a snapshot. */
int pve_disc_hold(struct pve_disc *d, const struct op *op, struct err *e);
void pve_disc_release(struct pve_disc *d);

/* What goes onto one disc, in a file without a name. */
struct pve_cargo {
	int fd;
	uint64_t size;
	struct sha256 sum;
};
int pve_cargo_begin(const struct pve_disc *d, struct pve_cargo *ret, struct err *e);
int pve_cargo_add(struct pve_cargo *c, struct bytes data, struct err *e);
void pve_cargo_end(struct pve_cargo *c);
#define auto_cargo __attribute__((cleanup(pve_cargo_end)))

/*
 * Appends it to the request ID in the guest's spool, which has offset bytes. place: the runner. On
 * failure *ret_try_pieces says whether another way may do.
 */
struct pve_disc_target {
	const char *place, *id;
	uint64_t offset;
};
int pve_disc_send(struct pve_disc *d, const struct op *op, struct pve_cargo *c,
	const struct pve_disc_target *to, bool *ret_try_pieces, struct err *e);
