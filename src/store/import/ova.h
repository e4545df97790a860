/* ova.h - extracts the disk of an OVA (a tar file with a description, .ovf, and disks), or of a
 * compressed tar file on the web. Any thread. */
#pragma once

#include "util/buf.h"
#include "util/thread/op.h"

/* Writes the first disk that the .ovf mentions, or the first .vmdk if there is no .ovf, to a new
 * file at path. */
int ova_extract_disk(const struct op *op, int ova_fd, const char *path, struct err *e);
/* Writes the first raw disk (*.raw) in a tar file, compressed with xz or gzip, to path. */
int ova_unpack_disk(const struct op *op, int tar_fd, const char *path, struct err *e);
/* Downloads a tar file, compressed with xz or gzip, and writes the first raw disk in it (*.raw) to
 * path. max: how many bytes the tar file may have; 0: any. */
int ova_fetch_disk(
	const struct op *op, const char *url, uint64_t max, const char *path, struct err *e);
