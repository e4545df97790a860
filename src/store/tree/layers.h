/* layers.h - puts the layers of a container image into an ext4 file system, one above the other.
 * For the program moat-disk, which has one thread. */
#pragma once

#include <stdint.h>

#include "util/err.h"

/*
 * disk: has a new, empty ext4 file system and nothing else. layers: tar files, the lowest first,
 * compressed by gzip, xz or zstd or not at all, made by anybody. max: bytes that may come out of
 * each. Owners, modes, times, devices, hard links and extended attributes are as the layers say.
 * Progress goes to stdout: "progress DONE TOTAL ", in bytes of the files.
 */
int layers_apply(const char *disk, uint64_t max, char *const *layers, struct err *e);
