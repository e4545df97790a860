/* sandbox-make.h - the making of one sandbox, for up and fork. */
#pragma once

#include "daemon/request.h"

struct sandbox_origin {
	const json_t *access; /* how to reach the backend; may be NULL */
	struct box *box;      /* non-NULL: as a copy of this one, */
	const char *snapshot; /* from this snapshot of it */
};

/* req was admitted; takes its spec and labels. Makes it, or leaves nothing. *ret: {"sandbox",
 * "vms"}. */
int sandbox_make(struct request *rq, struct sandbox_new *req, const struct sandbox_origin *from,
	bool detach, json_t **ret, struct err *e);
/* Labels as they come from a client. */
int check_labels(json_t *labels, struct err *e);
