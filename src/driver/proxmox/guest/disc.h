/*
 * disc.h - large files get into a guest on discs: an ISO image is uploaded to the server, put
 * into a drive that the VM has had since it started, copied by the runner into its spool
 * (moat-guest/once/disc.h), and removed. A drive serves one at a time. Any thread.
 */
#pragma once

#include "driver/proxmox/guest/agent.h"
#include "driver/proxmox/guest/guest.h"
#include "wire/sha256.h"

enum {
	/* Larger content goes on a disc, which costs a dozen calls; 1 MiB in pieces through the
	 * agent costs 23. */
	PVE_DISC_FROM = 1024 * 1024,
	/* What can still be sent in pieces if the disc does not work. */
	PVE_PIECES_MAX = 48 * 1024 * 1024,
};

struct pve_disc;

/* Borrows agent and vm, which outlive it. */
int pve_disc_new(struct pve_agent *agent, const struct pve_guest_vm *vm, struct pve_disc **ret,
	struct err *e);
void pve_disc_free(struct pve_disc *d); /* NULL is fine */

/* How many bytes the next disc may hold; 0: there is no drive, or it has just been found not to
 * work. d may be NULL. */
uint64_t pve_disc_room(struct pve_disc *d);

/* Keeps the drive empty, for a snapshot. */
int pve_disc_hold(struct pve_disc *d, const struct op *op, struct err *e);
void pve_disc_release(struct pve_disc *d);

/* What goes onto one disc, collected in a file without a name. */
struct pve_disc_content {
	int fd;
	uint64_t size;
	struct sha256 sum;
};
int pve_disc_content_begin(const struct pve_disc *d, struct pve_disc_content *ret, struct err *e);
int pve_disc_content_add(struct pve_disc_content *c, struct bytes data, struct err *e);
void pve_disc_content_end(struct pve_disc_content *c);

/*
 * Appends the content to the request `id` in the guest's spool, which has `offset` bytes already.
 * path: the runner's path in the guest. On failure *ret_try_pieces says whether sending it in
 * pieces may work.
 */
struct pve_disc_target {
	const char *path, *id;
	uint64_t offset;
};
int pve_disc_send(struct pve_disc *d, const struct op *op, struct pve_disc_content *c,
	const struct pve_disc_target *to, bool *ret_try_pieces, struct err *e);
