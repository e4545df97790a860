/* windows.h - a link into a Windows guest through the plain agent; see agent.h. */
#pragma once

#include "guestlink/guest.h"
#include "guestlink/agent/qga.h"

int agent_windows_open(struct qga *q, struct guest **ret, struct err *e);
