/* sha256-file.h - the SHA-256 of a whole file. Any thread. */
#pragma once

#include "util/thread/op.h"
#include "wire/sha256.h"

/* Reads all of an open file, from its beginning, and reports op_progress with `text`. */
int sha256_file(
	const struct op *op, int fd, const char *text, char ret_hex[SHA256_HEX + 1], struct err *e);
