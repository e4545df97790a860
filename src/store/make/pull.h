/* pull.h - makes a vendor's cloud image, for store_build, which has claimed its name. Any thread.
 */
#pragma once

#include "store/draft.h"
#include "store/cloud.h"

/* Makes the image, whose name the caller has claimed. rebuild: even if the vendor has nothing
 * new. */
int pull_claimed(struct store *st, const struct op *op, const struct cloud_image *image,
	const char *name, bool rebuild, struct image **ret, struct err *e);
