/* change.h - changes a disk: runs share/recipes/change.sh, which says how. Any thread. */
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
