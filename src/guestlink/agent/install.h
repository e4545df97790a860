/* install.h - puts our runner into a guest through its agent, and starts it there. For the thread
 * that holds the guest's turn. */
#pragma once

#include "guestlink/agent/qga.h"

/*
 * Starts the runner: it then serves its port (WIRE_PORT_NAME) and waits for line_open(). Uses a
 * runner of this version that is in the guest already; one that serves already is fine too.
 * runner_path: moat-guest on this host. ERR_UNSUPPORTED: the guest cannot run it, for the reason in
 * e.
 */
int runner_start(const struct op *op, struct qga *q, const char *runner_path, struct err *e);
