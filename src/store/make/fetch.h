/* fetch.h - downloads a file into the cache, where what was interrupted is continued, and checks
 * it. Any thread; processes may share the cache. */
#pragma once

#include "store/catalog.h"
#include "store/make/sums.h"

struct fetch_req {
	const char *url;
	const char *text; /* for op_progress */
	unsigned digits;  /* of the checksum: 64 (SHA-256), 128 (SHA-512), 0: there is none */
	const char *sum;  /* in lower case */
};
/* *ret_path: the file, named like the URL's last part; *ret_fd keeps others from it. The
 * caller deletes it. Without a checksum nothing is continued. */
int fetch_file(const struct store *st, const struct op *op, const struct fetch_req *req,
	char **ret_path, int *ret_fd, struct err *e);
/* The last part of a URL's path, without what follows a '?' or '#'. */
int fetch_name(const char *url, char **ret, struct err *e);
