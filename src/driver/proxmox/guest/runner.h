/*
 * pve-runner.h - our runner in a VM of a Proxmox VE server, used through the guest agent: one
 * operation is one `moat-guest once` (runner/once.h), as a rule in two calls. Any thread.
 */
#pragma once

#include "guest/armour.h"
#include "guest/guest.h"
#include "guest/pve-agent.h"
#include "guest/wire.h"

struct pve_runner;

/* Borrows the agent. runner_path: moat-guest on this host; NULL if there is none. */
int pve_runner_new(
	struct pve_agent *a, const char *runner_path, struct pve_runner **ret, struct err *e);
void pve_runner_free(struct pve_runner *r); /* NULL is fine */

/*
 * Puts it into the guest, unless it is there. ERR_UNSUPPORTED: it cannot run there, and e says why.
 * force: look again, although it was there.
 */
int pve_runner_install(struct pve_runner *r, const struct op *op, bool force, struct err *e);
/* Where it is in the guest; after an install. Copied: the caller frees it. */
int pve_runner_place(struct pve_runner *r, char **ret, struct err *e);

/* Nothing that was in the guest is certain any more. */
void pve_runner_forget(struct pve_runner *r);

/*
 * Does what the frames (wire.h) ask for; request: one request with id 1, with its input. The
 * answer: DATA, and one EXIT or DONE. timeout: the command's own, 0: none. When op ends first, or
 * the guest is long overdue, what was started is killed. Done once, whatever calls and answers get
 * lost on the way.
 */
int pve_runner_do(struct pve_runner *r, const struct op *op, struct bytes request, double timeout,
	struct buf *ret_frames, struct err *e);

/* The same for a request that is in the guest's spool already, as the file ID.0 (pve-bulk.h). */
struct pve_taken {
	char id[ARMOUR_ID_MAX + 1];
	uint64_t length;
	uint32_t crc;
};
int pve_runner_do_taken(struct pve_runner *r, const struct op *op, const struct pve_taken *request,
	double timeout, struct buf *ret_frames, struct err *e);
int pve_runner_id(char ret[ARMOUR_ID_MAX + 1], struct err *e); /* for such a request */
/* Removes it from the guest, as far as that is possible now. */
void pve_runner_drop(struct pve_runner *r, const char *id);

/*
 * For WIRE_EXEC_SPILL: fetches the output that is in the guest's files, at most max bytes of each
 * stream, gives it to io and removes it there.
 */
int pve_runner_fetch_spilled(struct pve_runner *r, const struct op *op, const char *where,
	size_t max, const struct guest_io *io, struct err *e);

/* Pure, for the above: "DIRECTORY PARTS PARTS", the directory being that of an id in spool. */
bool pve_parse_spilled(const char *text, const char *spool, char id[33], unsigned parts[2]);
