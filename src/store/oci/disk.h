/* disk.h - layers of a container image become a disk. Any thread. */
#pragma once

#include "store/draft.h"

/* Writes OUT/disk.qcow2 of the draft: an ext4 file system, labelled "root", without a partition
 * table. layers: paths, the lowest first. They are not trusted: who reads them is confined. */
int oci_disk(const struct op *op, struct draft *d, char *const *layers, unsigned n_layers,
	struct err *e);
