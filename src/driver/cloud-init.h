/* cloud-init.h - waits until cloud-init has done in a guest what the spec asks of it. Any thread.
 */
#pragma once

#include <stdbool.h>

#include "guestlink/guest.h"

/* Fails if cloud-init failed, with the last lines of its log, or is still at work when op ends.
 * required: it is known to be there; otherwise a guest without it is fine. */
int cloud_init_wait(struct guest *g, const struct op *op, bool required, struct err *e);
