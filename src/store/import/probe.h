/*
 * probe.h - finds out from a file's bytes which format of disk image it has, and whether it refers
 * to other files. Pure. The file is hostile: qemu-img gets it only after this has accepted it, and
 * is told the format, so that it does not guess.
 */
#pragma once

#include <stdbool.h>

#include "util/buf.h"

enum { PROBE_HEAD = 64 * 1024 }; /* bytes at the beginning of the file that are examined */

enum probe_kind {
	PROBE_QCOW2,
	PROBE_RAW,
	PROBE_VMDK,
	PROBE_VDI,
	PROBE_VHDX,
	PROBE_OVA,
	PROBE_GZIP, /* from here on: a disk, compressed */
	PROBE_XZ,
	PROBE_ZSTD,
};

struct probe_in {
	struct bytes head; /* the first PROBE_HEAD bytes, or the whole file if it is shorter */
	uint64_t size;     /* of the whole file */
	const char
		*name; /* for messages, and for its ending: ".img" may be raw without a signature */
};
/*
 * Finds the format. ERR_INVALID: no disk image, or one that needs other files (a backing file, an
 * external data file, extents, a parent). ERR_UNSUPPORTED: another format, which the message names.
 */
int probe_disk(const struct probe_in *in, enum probe_kind *ret, struct err *e);
/* Whether what was found has to be unpacked to see what it is. */
static inline bool probe_is_compressed(enum probe_kind kind)
{
	return kind >= PROBE_GZIP;
}
/* "qcow2", "raw", "vmdk", "vdi", "vhdx", which are qemu-img's names too; "ova", "gzip"... */
const char *probe_kind_name(enum probe_kind kind);
