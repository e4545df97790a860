/* download.h - a file from the web, read as it comes. One thread; pve_global_init has prepared
 * libcurl. */
#pragma once

#include <sys/types.h>

#include "util/op.h"

struct download;

/* http or https. Does not connect yet. */
int download_open(const char *url, struct download **ret, struct err *e);
/* The next bytes, valid until the next call; 0 at the end. Says how far it is, as "text". */
ssize_t download_read(
	struct download *d, const struct op *op, const char *text, const void **ret, struct err *e);
void download_close(struct download *d); /* NULL is fine */
#define auto_download __attribute__((cleanup(download_closep)))
static inline void download_closep(struct download **d)
{
	download_close(*d);
}
