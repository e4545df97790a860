/* sandbox-make.h - the making of one sandbox, for up, fork and standby. Any thread. */
#pragma once

#include "daemon/daemon.h"

struct sandbox_origin {
	const json_t *access;          /* how to reach the backend; may be NULL */
	struct driver_sandbox *driven; /* the sandbox to copy; NULL: it is made from its spec */
	const char *snapshot;          /* the snapshot of `driven` to copy */
};

/*
 * Makes a sandbox that admission has let in, on behalf of req->maker, or leaves nothing of it.
 * Takes req's spec and labels. *ret: {"sandbox", "vms"}; ret NULL: nobody asks.
 */
int sandbox_make(struct daemon *d, struct sandbox_new *req, const struct sandbox_origin *from,
	bool detach, json_t **ret, struct err *e);
