/* unpack.h - takes all files out of an ext4 file system, without mounting it. For the program
 * moat-disk, which has one thread. */
#pragma once

#include <stdint.h>

#include "util/err.h"

/*
 * Writes what the file system at that offset of a disk has below the directory to_fd, which is
 * empty: with owners, modes, times, hard links, holes and extended attributes. Only root of some
 * user namespace can. Device files become nothing here: their "MAJOR MINOR MODE UID GID PATH" go to
 * stdout, a line each.
 */
int unpack_ext4(const char *disk, uint64_t offset, int to_fd, struct err *e);
