/*
 * agent.h - the way into a guest where our runner cannot run: the plain guest agent, with a POSIX
 * shell on Linux, with cmd on Windows. Slower, one operation at a time, output delivered at the
 * end, no terminal, no signals; input of at most 8 MiB; text arguments must be UTF-8.
 *
 * On Windows everything is done as SYSTEM; there are no links, no modes, and files may have any
 * size.
 */
#pragma once

#include "guest/guest.h"
#include "guest/qga.h"

/* Borrows q, and alone uses it until guest_free(). */
int agent_open(struct qga *q, bool windows, struct guest **ret, struct err *e);
