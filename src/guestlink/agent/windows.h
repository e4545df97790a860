/* agent-windows.h - the plain guest agent of a Windows guest as a way in; see agent.h. */
#pragma once

#include "guest/guest.h"
#include "guest/qga.h"

int agent_windows_open(struct qga *q, struct guest **ret, struct err *e);
