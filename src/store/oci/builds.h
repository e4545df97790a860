/* builds.h - what builds of Dockerfiles keep for the next one, in DATA_DIR/images/container-builds:
 * layers of buildah. Any thread, any number of processes. */
#pragma once

#include <stdint.h>

#include "store/catalog.h"

/* Waits until no other build uses it. ret_fd: keeps others away until it is closed. */
int builds_take(
	const struct store *st, const struct op *op, char **ret_dir, int *ret_fd, struct err *e);
/* Deletes all of it, if no build uses it, and none has for so many seconds. Returns 1 if it did. */
int builds_drop(const struct store *st, int64_t unused_s, struct err *e);
