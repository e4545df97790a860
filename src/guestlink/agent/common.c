#include "guestlink/agent/common.h"

#include <stdlib.h>

enum { INPUT_MAX = 8 * 1024 * 1024 };

int agent_new(const struct guest_ops *ops, struct qga *q, struct guest **ret, struct err *e)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return err_oom(e);
	a->base.ops = ops;
	a->q = q;
	turn_init(&a->turn);
	*ret = &a->base;
	return 0;
}

void agent_free(struct guest *g)
{
	struct agent *a = agent_of(g);

	turn_done(&a->turn);
	free(a);
}

void agent_stand_still(struct guest *g, bool still)
{
	qga_stand_still(agent_of(g)->q, still);
}

int agent_take_input(const struct op *op, const struct guest_io *io, struct buf *ret, struct err *e)
{
	int ended = guest_collect(op, io, INPUT_MAX + 1, ret, e);

	if (ended < 0)
		return -1;
	if (!ended || ret->len > INPUT_MAX)
		return guest_too_large(e,
			"more than %d bytes of input do not pass through the plain guest agent",
			INPUT_MAX);
	return 0;
}
