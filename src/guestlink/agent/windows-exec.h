/* windows-exec.h - runs commands in a Windows guest; see windows.h. */
#pragma once

#include "guestlink/guest.h"

int agent_winexec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e);
