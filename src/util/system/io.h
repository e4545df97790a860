/* io.h - reading and writing with an op, and small file helpers. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/buf.h"
#include "util/thread/op.h"

int fd_set_nonblock(int fd, struct err *e);
/* Writes all of it to a non-blocking fd. */
int io_write_all(const struct op *op, int fd, const void *p, size_t n, struct err *e);
/* Reads exactly n bytes; end of file before that is ERR_UNAVAILABLE. */
int io_read_exact(const struct op *op, int fd, void *p, size_t n, struct err *e);
/* Waits, then reads at most max bytes into b. Returns the count, 0 at end of file. */
ssize_t io_fill(const struct op *op, struct buf *b, int fd, size_t max, struct err *e);

/* Like io_fill, but does not wait: fails with e->sys EAGAIN if there is nothing to read. */
ssize_t io_fill_now(struct buf *b, int fd, size_t max, struct err *e);

/* Reads a whole file of at most max bytes; a larger one is ERR_LIMIT. The result is
 * NUL-terminated. */
int file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *e);
/* Like file_read, for an open file, from its beginning. */
int file_read_all(int fd, size_t max, struct buf *ret, struct err *e);
/* Writes a temporary file in the same directory, syncs and renames it: readers see the old file or
 * the new one. */
int file_write_atomic(const char *path, const void *p, size_t n, mode_t mode, struct err *e);
/* Removes the temporary files that a killed process has left in a directory, for whoever knows that
 * nobody is writing there. */
void file_write_atomic_sweep(const char *dir);
/* Writes n bytes into an open file, from offset `at` on. */
int file_write_at(int fd, const void *p, size_t n, off_t at, struct err *e);
/* Makes a file in memory (memfd) with this content. */
int file_in_memory(const char *name, const void *p, size_t n, int *ret_fd, struct err *e);
/* The last max bytes of a file, "" if there is no such file, as a malloc'd string; NULL: out of
 * memory. */
char *file_tail(const char *path, size_t max);

int dir_make(const char *path, mode_t mode, struct err *e); /* parents too; existing is fine */
int dir_remove(
	const char *path, struct err *e); /* with all in it; missing is fine; never follows links */
bool path_exists(const char *path);
/* What the files in a directory, without its subdirectories, take of the disk. */
uint64_t dir_bytes(const char *path);
