/* template-file.h - the parts of a template on disk. Everything blocks on files only. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "util/op.h"

/* Copies what is not a hole, from the beginning of in to out, and sums it with its place. */
int sparse_copy(
	const struct op *op, int in, int out, const char *text, uint64_t *ret_sum, struct err *e);
/* The sum of a whole file as sparse_copy counts it. */
int sparse_sum(const struct op *op, int fd, uint64_t *ret_sum, struct err *e);
/* A memfd of that size; its seals come later. */
int ram_new(uint64_t size, int *ret, struct err *e);
/* No write, no other size, for ever. Fails while somebody has it mapped for writing. */
int ram_seal(int fd, struct err *e);
