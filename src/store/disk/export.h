/* export.h - the disk of an image becomes a file. Any thread. */
#pragma once

#include "store/store.h"

struct export_req {
	const char *image;  /* as for store_find */
	const char *path;   /* absolute; a file there is replaced, when the new one is whole */
	const char *format; /* "qcow2", "raw", "ova" */
};
/* What is interrupted leaves nothing, and the file that was there stays. *ret_size: bytes. */
int store_export(struct store *st, const struct op *op, const struct export_req *req,
	uint64_t *ret_size, struct err *e);
