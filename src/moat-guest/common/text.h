/* text.h - small files of the system that the runner reads and changes. */
#pragma once

#include <sys/types.h>

/* All of it, up to 64 KiB. NULL, errno. */
char *text_read(const char *path);

/*
 * New content by the file's own inode: links and owners stay, and it is less work than a new file.
 * Without a mode, only a regular file that is there is changed, and anything else is none of our
 * business; with one it must be so in the end. 0 or an errno.
 */
int text_put(const char *path, const char *text, mode_t mode);
