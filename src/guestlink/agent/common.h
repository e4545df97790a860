/* common.h - what links through the plain agent share, whatever system the guest runs: the agent's
 * client, one command at a time, and input that must fit into one call. */
#pragma once

#include "guestlink/guest.h"
#include "guestlink/agent/qga.h"
#include "util/thread/turn.h"

struct agent {
	struct guest base; /* first */
	struct qga *q;
	struct turn turn;
	char last_script[20]; /* Windows: id of the last script, whose files are still in the guest;
				 or empty */
};

static inline struct agent *agent_of(struct guest *g)
{
	return (struct agent *)g;
}

/* Borrows q. */
int agent_new(const struct guest_ops *ops, struct qga *q, struct guest **ret, struct err *e);
void agent_free(struct guest *g);
void agent_stand_still(struct guest *g, bool still);

/* Reads all input of a command. ERR_LIMIT: it is too much. */
int agent_take_input(
	const struct op *op, const struct guest_io *io, struct buf *ret, struct err *e);
