/*
 * rest.h - the operations of a guest, each a request to the runner (runner.h) by agent calls. A
 * request is sent as a whole and answered as a whole: input is collected first, or goes to the
 * guest on discs while it comes; output comes at the end. Any thread.
 */
#pragma once

#include "driver/proxmox/guest/disc.h"
#include "driver/proxmox/guest/runner.h"

/* Input of a command, or content of a file. */
struct pve_input {
	struct buf ahead;      /* the beginning, which was taken already */
	bool ended;            /* ahead has all of it */
	struct pve_disc *disc; /* for what is large; may be NULL */
};

int pve_rest_exec(struct pve_runner *r, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct pve_input *in, struct guest_exit *ret, struct err *e);
int pve_rest_read(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	uint64_t max, const struct guest_io *io, struct guest_stat *ret, struct err *e);
int pve_rest_write(struct pve_runner *r, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct pve_input *in, struct guest_stat *ret, struct err *e);
int pve_rest_list(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e);
int pve_rest_mkdir(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e);
int pve_rest_symlink(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e);

/* Pure: reads one whole answer of the runner, and checks it. */
struct pve_answer {
	struct wire_msg end;
	char text[256];  /* EXIT's or DONE's body, escaped */
	uint64_t got[4]; /* bytes by stream */
};
struct pve_answer_rules {
	enum wire_type end;
	unsigned streams; /* bits 1 << enum wire_stream */
	uint64_t max;     /* of each stream; 0: no limit */
};
int pve_read_answer(struct bytes frames, const struct pve_answer_rules *rules,
	int (*sink)(void *arg, int stream, struct bytes data, struct err *e), void *arg,
	struct pve_answer *ret, struct err *e);
