/*
 * hold.h - file locks that say "this is alive". A hold ends with its process, however that ends.
 *
 * How it works: flock on a lock file, then a look whether the file still has its name. So whoever
 * holds a lock alone may delete the file, or rename the directory that it is in: those who opened
 * it before find out and start again.
 */
#pragma once

#include <stdbool.h>

#include "util/op.h"

enum hold {
	HOLD_FAILED = -1,
	HOLD_OK,
	HOLD_BUSY, /* someone else holds it */
	HOLD_GONE, /* no such directory, or it went away in this moment */
};

enum hold_mode { HOLD_SHARED, HOLD_ALONE };

/* Does not wait. *ret_fd is the hold: closing it ends it. */
enum hold hold_file(const char *path, enum hold_mode mode, int *ret_fd, struct err *e);
/* The same for a directory, through the file "lock" in it. */
enum hold hold_dir(const char *dir, enum hold_mode mode, int *ret_fd, struct err *e);
/* A shared hold of a directory, after those who have it alone. 1: held; 0: there is none. */
int hold_wait(const struct op *op, const char *dir, int *ret_fd, struct err *e);
