/* health.h - asks a VM whether it is well: the spec's healthcheck. One thread at a time. */
#pragma once

#include "guestlink/guest.h"
#include "spec/spec.h"

struct health {
	const char *vm; /* its name */
	const struct healthcheck_spec *check;
	const char *user; /* NULL: root */
	const char *cwd;  /* NULL: the user's home */
	const char *const *env;
	int64_t grace_until;
	unsigned failures;
};

void health_begin(
	struct health *h, const char *vm, const struct healthcheck_spec *check, const char *user);
/* Asks once. 1: the VM is well. 0: not yet; the interval is over, ask again. -1: it was not well
 * too often, or could not be asked. */
int health_ask(struct health *h, struct guest *g, const struct op *op, struct err *e);
