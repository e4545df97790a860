/* change.h - changes a disk, or an image: runs share/recipes/change.sh, which says how. Any
 * thread. */
#pragma once

#include "store/draft.h"

struct change_disk {
	const char *name; /* of the new image, whose name the caller has claimed */
	const char *disk, *format;
	const char *const *copy, *const *packages, *const *scripts; /* as in change_req */
	unsigned disk_mb;
};
/* Checks the steps, and writes them into the draft. ret_hex: a digest of all they do. */
int change_prepare(const struct op *op, struct draft *d, const struct change_disk *c,
	char ret_hex[SHA256_HEX + 1], struct err *e);
/* Writes the changed disk to OUT/disk.qcow2 of the draft. */
int change_run(const struct op *op, struct draft *d, const struct change_disk *c, struct err *e);

/* Finds an image to be changed, or builds it. */
int change_use_base(struct store *st, const struct op *op, const char *base, struct image **ret,
	struct image_use **ret_use, struct err *e);
/* As store_change, of a base that is in use, into a name that the caller has claimed. members: of
 * the new manifest, in place of the base's; NULL: it says that it was changed. */
int change_claimed(struct store *st, const struct op *op, const struct change_req *req,
	const struct image *base, json_t *members, struct image **ret, struct err *e);
