/* sparse.h - copies of files with holes. Blocks on files only. Any thread. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "util/thread/op.h"

/* Copies what is not a hole, from the beginning of in to out. *ret_sum: a checksum of it with its
 * place, against accidents, not against enemies. */
int sparse_copy(
	const struct op *op, int in, int out, const char *text, uint64_t *ret_sum, struct err *e);
/* The checksum that sparse_copy would give. */
int sparse_sum(const struct op *op, int fd, uint64_t *ret_sum, struct err *e);
/* Copies a file over what is at `to`. The file system shares the data if it can. */
int sparse_clone(const struct op *op, const char *from, const char *to, struct err *e);
/* A memfd of that size; its seals come later. */
int ram_new(uint64_t size, int *ret, struct err *e);
/* No write, no other size, for ever. Fails while somebody has it mapped for writing. */
int ram_seal(int fd, struct err *e);
