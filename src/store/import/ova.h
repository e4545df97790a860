/* ova.h - gets the disk out of an OVA, a tar file with a description (.ovf) and disks, or out of a
 * packed tar file on the web. */
#pragma once

#include "util/buf.h"
#include "util/op.h"

enum { OVF_SIZE_MAX = 1024 * 1024, OVA_NAME_MAX = 256 };

/* Pure: the file name of the first disk that an .ovf mentions. ERR_INVALID: there is none. */
int ovf_first_disk(struct bytes ovf, char ret_name[OVA_NAME_MAX], struct err *e);

/* Writes that disk, or the first .vmdk if there is no .ovf, to a new file at path. */
int ova_extract_disk(const struct op *op, int ova_fd, const char *path, struct err *e);
/* Downloads a tar file, packed with xz or gzip, and writes the first raw disk in it (*.raw) to
 * path.
 */
int ova_fetch_disk(const struct op *op, const char *url, const char *path, struct err *e);
