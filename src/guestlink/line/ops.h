/* line-ops.h - the operations of a guest over channels of a runner's line. */
#pragma once

#include "guest/guest.h"

extern const struct guest_ops line_ops;
void line_free(struct guest *g); /* its last member; defined with the line */
/* In line-identity.c. */
int line_identify(
	struct guest *g, const struct op *op, const struct guest_identity *id, struct err *e);
