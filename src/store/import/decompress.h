/* decompress.h - unpacks a compressed file. The programs that read it are confined as qemu-img is.
 * Any thread. */
#pragma once

#include "store/import/probe.h"
#include "util/thread/op.h"

struct decompress_req {
	const char *helper_path; /* moat-helper, for the guard */
	int fd;                  /* the file; if we are root, all may read it */
	enum probe_kind kind;    /* PROBE_GZIP, PROBE_XZ, PROBE_ZSTD */
	const char *path;        /* a new file; zeros in it become holes */
	const char *text;        /* of the progress */
};
/* A file that becomes larger than a TiB is refused, as is one that is damaged or cut short. */
int decompress(const struct op *op, const struct decompress_req *req, struct err *e);
