/*
 * agent.h - a link into a guest where our runner cannot run: through the plain guest agent, with a
 * POSIX shell on Linux, with cmd on Windows. It is slower: one operation at a time, output
 * delivered at the end, no terminal, no signals, input of at most 8 MiB; text arguments must be
 * UTF-8.
 *
 * In Windows guests all operations run as SYSTEM; there are no links and no modes, and files may
 * have any size.
 */
#pragma once

#include "guestlink/guest.h"
#include "guestlink/agent/qga.h"

/* Borrows q, which nothing else may use until guest_free(). */
int agent_open(struct qga *q, bool windows, struct guest **ret, struct err *e);
