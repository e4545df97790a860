/* grow.h - files come into an ext4 file system, and go, without mounting it. For the program
 * moat-disk, which has one thread. */
#pragma once

#include <ext2fs/ext2fs.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "util/err.h"

struct grow {
	ext2_filsys fs;
	char *part; /* GROW_PART bytes */
	struct err *e;
};
enum { GROW_PART = 1 << 20, GROW_DEPTH = 256 };

/* Everything of a file but its content. */
struct grow_meta {
	mode_t mode; /* with the kind of file */
	uid_t uid;
	gid_t gid;
	struct timespec atime, mtime;
	unsigned major, minor; /* of a device */
};

/* Opens a file system that is the whole disk. */
int grow_open(const char *disk, struct grow *ret, struct err *e);
/* Writes what is still in memory. */
int grow_close(struct grow *g);
/* Forgets it after a failure. */
void grow_drop(struct grow *g);

/* Returns 1 and the entry of that name, or 0. */
int grow_find(struct grow *g, ext2_ino_t dir, const char *name, ext2_ino_t *ret);
int grow_mode(struct grow *g, ext2_ino_t ino, mode_t *ret);
/* The target of a symbolic link, at most size - 1 bytes of it. */
int grow_link_target(struct grow *g, ext2_ino_t ino, char *ret, size_t size);

/* Each makes an entry of a name that the directory does not have. */
int grow_directory(struct grow *g, ext2_ino_t dir, const char *name, ext2_ino_t *ret);
int grow_symlink(
	struct grow *g, ext2_ino_t dir, const char *name, const char *target, ext2_ino_t *ret);
/* A file without content, a pipe, a socket or a device. */
int grow_node(struct grow *g, ext2_ino_t dir, const char *name, const struct grow_meta *meta,
	ext2_ino_t *ret);
/* One more name of a file. */
int grow_hard_link(struct grow *g, ext2_ino_t dir, const char *name, ext2_ino_t ino);

/* Writes g->part, which has n bytes, at an offset that is a multiple of GROW_PART. Zeros become a
 * hole. */
int grow_write(struct grow *g, ext2_ino_t ino, uint64_t at, size_t n);
int grow_set_size(struct grow *g, ext2_ino_t ino, uint64_t size);
/* Sets all of it; the kind of file stays. Extended attributes come after it. */
int grow_set_meta(struct grow *g, ext2_ino_t ino, const struct grow_meta *meta);
int grow_set_attribute(
	struct grow *g, ext2_ino_t ino, const char *name, const void *value, size_t len);

/* Removes an entry, with all that is below it. */
int grow_remove(struct grow *g, ext2_ino_t dir, const char *name);
/* Removes all that is in a directory. */
int grow_clear(struct grow *g, ext2_ino_t dir);
