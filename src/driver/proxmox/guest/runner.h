/*
 * runner.h - our runner in a VM of a Proxmox VE server, used through the guest agent: one
 * operation is one `moat-guest once` (moat-guest/once/once.h), as a rule in two calls. Any thread.
 */
#pragma once

#include "wire/ascii.h"
#include "guestlink/guest.h"
#include "guestlink/runners.h"
#include "driver/proxmox/guest/agent.h"
#include "wire/wire.h"

struct pve_runner;

/* Borrows both. */
int pve_runner_new(
	struct pve_agent *a, const struct runners *runners, struct pve_runner **ret, struct err *e);
void pve_runner_free(struct pve_runner *r); /* NULL is fine */

/*
 * Puts the runner into the guest, unless it is there. ERR_UNSUPPORTED: it cannot run there, and e
 * says why. force: look in the guest even if it was there before.
 */
int pve_runner_install(struct pve_runner *r, const struct op *op, bool force, struct err *e);
/* The runner's path in the guest, which the caller frees; fails before an install. */
int pve_runner_path(struct pve_runner *r, char **ret, struct err *e);

/* Forgets what is known of the guest: it was reset, or went back to a snapshot. */
void pve_runner_forget(struct pve_runner *r);

/*
 * Does what the frames (wire.h) ask for; request: one request with id 1, with its input. The
 * answer: DATA, and one EXIT or DONE. timeout: the command's own, 0: none. When op ends first, or
 * the guest is long overdue, what was started is killed. Done once, whatever calls and answers get
 * lost on the way.
 */
int pve_runner_do(struct pve_runner *r, const struct op *op, struct bytes request, double timeout,
	struct buf *ret_frames, struct err *e);

/* pve_runner_do for a request that is in the guest's spool already, as the file ID.0 (bulk.h). */
struct pve_spooled {
	char id[ASCII_ID_MAX + 1];
	uint64_t length;
	uint32_t crc;
};
int pve_runner_do_spooled(struct pve_runner *r, const struct op *op,
	const struct pve_spooled *request, double timeout, struct buf *ret_frames, struct err *e);
int pve_runner_id(char ret[ASCII_ID_MAX + 1], struct err *e); /* a new id for such a request */
/* Removes such a request from the guest, as far as that is possible now. */
void pve_runner_drop(struct pve_runner *r, const char *id);

/*
 * For WIRE_EXEC_SPILL: fetches the output of a command that the runner has put into files, at most
 * max bytes of each stream, gives it to io and removes the files. where: as the runner named them.
 */
int pve_runner_fetch_spilled(struct pve_runner *r, const struct op *op, const char *where,
	size_t max, const struct guest_io *io, struct err *e);

/* Pure: reads `where`, "SPOOL/ID PARTS PARTS": the numbers of files of stdout and stderr. */
bool pve_parse_spilled(const char *text, const char *spool, char id[33], unsigned parts[2]);
