/* commit.h - the disk of a VM becomes an image. Any thread. */
#pragma once

#include "store/store.h"

/* What `copy` makes in its directory. */
#define COMMIT_OVERLAY "overlay" /* qcow2: what the VM has written */
#define COMMIT_LAYER   "layer"   /* qcow2, below it: the disk of the VM's template */

struct commit_req {
	const char *name;         /* replaces the image of that name */
	const char *user;         /* NULL: as the base has it */
	const char *description;  /* of the new image */
	const struct image *base; /* what the VM runs on; in use by the caller */
	bool layered;             /* there is a COMMIT_LAYER */
	/* Copies the VM's layers into a directory, all as they are at one moment. */
	int (*copy)(void *arg, const struct op *op, const char *dir, struct err *e);
	void *arg;
};
/* Makes an image like the base, with a disk of all layers. What is interrupted leaves nothing. */
int store_commit(struct store *st, const struct op *op, const struct commit_req *req,
	struct image **ret, struct err *e);
