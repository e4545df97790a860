/* vendor.h - what a vendor says of its image: the checksum, and that it is the vendor who says it.
 * Any thread. */
#pragma once

#include "store/catalog.h"
#include "store/cloud.h"
#include "store/make/sums.h"

/* Downloads the list of checksums, and its signature, which gpgv checks. scratch: a directory for
 * files. */
int vendor_sum(const struct store *st, const struct op *op, const struct cloud_image *image,
	const char *scratch, char ret_hex[SUM_HEX_MAX + 1], struct err *e);
/* The key that the user has put beside his recipes: for a key that moat does not know yet, or a
 * mirror that signs by itself. Returns 1, or 0 if there is none. */
int vendor_own_key(const struct store *st, const char *vendor, struct buf *ret, struct err *e);
