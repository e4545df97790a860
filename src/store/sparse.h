/* sparse.h - copies of files with holes. Blocks on files only. Any thread. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "util/thread/op.h"

/* Copies what is not a hole from `in` to `out`, from the beginning of both. *ret_sum: a checksum of
 * these bytes and of where they are. It shows accidents; an enemy could make another file with the
 * same. */
int sparse_copy(
	const struct op *op, int in, int out, const char *text, uint64_t *ret_sum, struct err *e);
/* Works out the checksum that sparse_copy would give. */
int sparse_sum(const struct op *op, int fd, uint64_t *ret_sum, struct err *e);
/* Copies a file over what is at `to`. The file system shares the data if it can. */
int sparse_clone(const struct op *op, const char *from, const char *to, struct err *e);
/* Makes a memfd of that size, which can still be written to. */
int ram_new(uint64_t size, int *ret, struct err *e);
/* Seals a memfd: nobody can write to it or change its size any more. Fails while somebody has it
 * mapped for writing. */
int ram_seal(int fd, struct err *e);
