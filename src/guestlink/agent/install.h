/* install.h - putting our runner into a guest through its agent, and starting it there. */
#pragma once

#include "guest/qga.h"

/*
 * After success the runner serves its port (WIRE_PORT_NAME) and waits for line_open(). A runner of
 * this version that is in the guest already is used as it is; one that already serves is fine too.
 * runner_path: moat-guest on this host. ERR_UNSUPPORTED: the guest cannot run it, and e says why.
 */
int runner_start(const struct op *op, struct qga *q, const char *runner_path, struct err *e);
