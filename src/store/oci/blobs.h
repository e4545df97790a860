/* blobs.h - layers of container images that are kept for the next image that has them, in
 * DATA_DIR/images/blobs. Any thread, any number of processes: a file appears whole, under the
 * checksum of its content, and whoever needs it links it away first. */
#pragma once

#include "store/catalog.h"

/* Links a layer to the path `to`, after a look at its checksum. Returns 1, or 0 if it is not there
 * or damaged. */
int blobs_lend(const struct store *st, const struct op *op, const char *hex, const char *to,
	struct err *e);
/* Keeps a layer whose checksum somebody has checked. What cannot be kept is got again. */
void blobs_keep(const struct store *st, const char *hex, const char *from);
/* Deletes those that were used longest ago, until at most max bytes are left. Returns the bytes of
 * those that are deleted. */
uint64_t blobs_trim(const struct store *st, uint64_t max);
