/* overlay.h - writes an empty qcow2 file above a base image. No process is started; no state. Any
 * thread. */
#pragma once

#include <stdint.h>

#include "util/buf.h"

struct overlay_req {
	const char *path;        /* must not exist yet; made with mode 0600 */
	const char *base;        /* absolute path; NULL: an empty disk of that size */
	const char *base_format; /* "qcow2" or "raw" */
	uint64_t size;           /* bytes; 0: the base's size. Less than that is refused */
};
int overlay_create(const struct overlay_req *req, struct err *e);

/* The size in bytes of the disk that a guest sees; format "qcow2" or "raw". */
int disk_size(const char *path, const char *format, uint64_t *ret, struct err *e);

/* Pure: makes the first bytes of such a qcow2 file. The rest of it, up to *ret_len, is a hole. */
int overlay_header(
	const struct overlay_req *req, struct buf *ret, uint64_t *ret_len, struct err *e);
