/* download.h - downloads over HTTP: as a stream, for a reader that pulls it, or into a file. Each
 * download is for one thread. */
#pragma once

#include <sys/types.h>

#include "util/buf.h"
#include "util/thread/op.h"

struct download;

/* Prepares libcurl; any number of times, from any thread. */
int download_init(struct err *e);

/* url: http or https. from: where to begin, if the server can; else download_read fails with
 * ERR_UNSUPPORTED. max: how many bytes the whole may have; 0: any. Does not connect yet. */
int download_open(
	const char *url, uint64_t from, uint64_t max, struct download **ret, struct err *e);
/* Returns the next bytes, valid until the next call; 0 at the end. Reports op_progress
 * with `text`. ERR_LIMIT: there are more than max, or the server says so. */
ssize_t download_read(
	struct download *d, const struct op *op, const char *text, const void **ret, struct err *e);
void download_close(struct download *d); /* NULL is fine */
#define auto_download __attribute__((cleanup(download_closep)))
static inline void download_closep(struct download **d)
{
	download_close(*d);
}

/* Downloads something small, of at most max bytes. */
int download_small(
	const struct op *op, const char *url, size_t max, struct buf *ret, struct err *e);
struct download_file {
	const char *url;
	int fd;           /* has the beginning already, or nothing */
	uint64_t max;     /* how many bytes the whole may have; 0: any */
	const char *text; /* for op_progress */
};
/* Downloads the rest of a file. What breaks off is continued, a few times; what has arrived stays
 * in the file. Fails before it fills the disk, if the server says how much there is. */
int download_rest(const struct op *op, const struct download_file *file, struct err *e);
