/*
 * hold.h - holds: file locks that show that a file or directory is in use. A hold ends with its
 * process, however that ends. Any thread.
 *
 * How it works: flock on a lock file, then a check whether the file still has its name. So the
 * process that holds a lock alone may delete the file, or rename its directory: a process that
 * opened the file before notices that and starts again.
 */
#pragma once

#include <stdbool.h>

#include "util/thread/op.h"

enum hold {
	HOLD_FAILED = -1,
	HOLD_OK,
	HOLD_BUSY, /* another process or thread holds it */
	HOLD_GONE, /* no such directory, or it was deleted in this moment */
};

enum hold_mode { HOLD_SHARED, HOLD_ALONE };

/* Holds a file, without waiting. *ret_fd is the hold: closing it ends it. */
enum hold hold_file(const char *path, enum hold_mode mode, int *ret_fd, struct err *e);
/* Holds a directory, by the file "lock" in it, without waiting. */
enum hold hold_dir(const char *dir, enum hold_mode mode, int *ret_fd, struct err *e);
/* Holds a directory shared; waits while a process holds it alone. Returns 1, or 0 if there is no
 * such directory. */
int hold_wait(const struct op *op, const char *dir, int *ret_fd, struct err *e);
