/* overlay.h - writes an empty qcow2 file above a base image. No process is started; no state. */
#pragma once

#include <stdint.h>

#include "util/buf.h"

struct overlay_req {
	const char *path;        /* must not exist yet; made with mode 0600 */
	const char *base;        /* absolute; NULL: an empty disk of that size */
	const char *base_format; /* "qcow2" or "raw" */
	uint64_t size;           /* bytes; 0: as the base. Less than the base is refused */
};
int overlay_create(const struct overlay_req *req, struct err *e);

/* The guest's view of an image's size in bytes; format "qcow2" or "raw". */
int disk_size(const char *path, const char *format, uint64_t *ret, struct err *e);

/* Pure: the bytes that begin a qcow2 file of that size; the rest of it is a hole up to *ret_len. */
int overlay_header(
	const struct overlay_req *req, struct buf *ret, uint64_t *ret_len, struct err *e);
