/* stale.h - removes templates that are of no use any more. Any thread. */
#pragma once

#include "daemon/daemon.h"

/* said (may be NULL) hears a line about each template that goes. */
int templates_drop_stale(
	struct daemon *d, void (*said)(void *arg, const char *text), void *arg, struct err *e);
