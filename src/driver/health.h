/* health.h - asks a VM whether it is well: the spec's healthcheck. */
#pragma once

#include "guest/guest.h"
#include "spec/spec.h"

struct health {
	const struct vm_spec *vm;
	const char *user; /* NULL: root */
	int64_t grace_until;
	unsigned failures;
};

void health_begin(struct health *h, const struct vm_spec *vm, const char *user);
/* Asks once. 1: it is well. 0: not yet; ask again, the interval is over. -1: not well too often, or
 * it could not be asked. */
int health_ask(struct health *h, struct guest *g, const struct op *op, struct err *e);
