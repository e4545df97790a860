/*
 * agent-base.h - what the ways into a guest by its plain agent share, whatever the guest runs: the
 * client, one command at a time, and input that has to fit into one call.
 */
#pragma once

#include "guest/guest.h"
#include "guest/qga.h"
#include "util/turn.h"

struct agent {
	struct guest base; /* first */
	struct qga *q;
	struct turn turn;
	char stale[20]; /* Windows: id of a script that is still in the guest, or empty */
};

static inline struct agent *agent_of(struct guest *g)
{
	return (struct agent *)g;
}

/* The client stays the caller's. */
int agent_new(const struct guest_ops *ops, struct qga *q, struct guest **ret, struct err *e);
void agent_free(struct guest *g);

/* All of it, or ERR_LIMIT. */
int agent_take_input(
	const struct op *op, const struct guest_io *io, struct buf *ret, struct err *e);
