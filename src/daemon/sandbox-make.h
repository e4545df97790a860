/* sandbox-make.h - the making of one sandbox, for up, fork and standby. */
#pragma once

#include "daemon/daemon.h"

struct sandbox_origin {
	const json_t *access; /* how to reach the backend; may be NULL */
	struct box *box;      /* non-NULL: as a copy of this one, */
	const char *snapshot; /* from this snapshot of it */
};

/* req was admitted; takes its spec and labels. Makes it on its maker's behalf, or leaves nothing.
 * *ret: {"sandbox", "vms"}; ret NULL: nobody asks. */
int sandbox_make(struct daemon *d, struct sandbox_new *req, const struct sandbox_origin *from,
	bool detach, json_t **ret, struct err *e);
/* Removes one that is only in standby; false: there is none. For admission_on_shortage; arg is the
 * daemon. */
bool standby_give_way(void *arg);
/* What is wanted if it is ready; 1: *ret is as above. 0: it has to be made. */
int standby_take(struct daemon *d, const struct sandbox_spec *spec, struct sandbox_taker *by,
	bool detach, json_t **ret, struct err *e);
/* Labels as they come from a client. */
int check_labels(json_t *labels, struct err *e);
