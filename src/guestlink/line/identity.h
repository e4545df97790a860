/* identity.h - the operation of a runner's line that makes a copied VM its own. Any thread. */
#pragma once

#include "guestlink/guest.h"

/* Does what guest_identify promises, over a runner's line. */
int line_identify(
	struct guest *g, const struct op *op, const struct guest_identity *id, struct err *e);
