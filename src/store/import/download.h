/* download.h - downloads a file over HTTP, for a reader that pulls it. For one thread;
 * pve_global_init has prepared libcurl. */
#pragma once

#include <sys/types.h>

#include "util/thread/op.h"

struct download;

/* url: http or https. Does not connect yet. */
int download_open(const char *url, struct download **ret, struct err *e);
/* Returns the next bytes, valid until the next call; 0 at the end. Reports op_progress
 * with `text`. */
ssize_t download_read(
	struct download *d, const struct op *op, const char *text, const void **ret, struct err *e);
void download_close(struct download *d); /* NULL is fine */
#define auto_download __attribute__((cleanup(download_closep)))
static inline void download_closep(struct download **d)
{
	download_close(*d);
}
