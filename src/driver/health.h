/* health.h - asks a VM whether it is well: the spec's healthcheck. */
#pragma once

#include "guest/guest.h"
#include "spec/spec.h"

/* Runs the check until it passes, or has failed too often. user: NULL for root. */
int health_wait(struct guest *g, const struct op *op, const struct vm_spec *vm, const char *user,
	struct err *e);
