/* io.h - reading and writing with an op, and small file helpers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/buf.h"
#include "util/op.h"

int fd_set_nonblock(int fd, struct err *e);
/* Writes all of it to a non-blocking fd. */
int io_write_all(const struct op *op, int fd, const void *p, size_t n, struct err *e);
/* Reads exactly n bytes; end of file before that is ERR_UNAVAILABLE. */
int io_read_exact(const struct op *op, int fd, void *p, size_t n, struct err *e);
/* Waits, then reads at most max bytes into b. Returns the count, 0 at end of file. */
ssize_t io_fill(const struct op *op, struct buf *b, int fd, size_t max, struct err *e);

/* The same without waiting: ERR with e->sys EAGAIN if there is nothing. */
ssize_t io_fill_now(struct buf *b, int fd, size_t max, struct err *e);

/* Whole small files, at most max bytes (a larger one is ERR_LIMIT). Result is NUL-terminated. */
int file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *e);
/* The same of an open one, from its start. */
int file_read_all(int fd, size_t max, struct buf *ret, struct err *e);
/* Written to a temporary name beside it, synced and renamed: readers see the old file or the new.
 */
int file_write_atomic(const char *path, const void *p, size_t n, mode_t mode, struct err *e);
/* All of it into an open file, from that offset on. */
int file_write_at(int fd, const void *p, size_t n, off_t at, struct err *e);
/* The last max bytes of a file, "" if there is none; always a malloc'd string unless out of memory.
 */
char *file_tail(const char *path, size_t max);

int dir_make(const char *path, mode_t mode, struct err *e); /* parents too; existing is fine */
int dir_remove(
	const char *path, struct err *e); /* with all in it; missing is fine; never follows links */
bool path_exists(const char *path);
