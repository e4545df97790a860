/* text.h - small files of the system that the runner reads and changes. */
#pragma once

#include <sys/types.h>

/* The whole content, up to 64 KiB; malloc'd. NULL and errno. */
char *text_read(const char *path);

/*
 * Replaces a file's content but keeps its inode: links and owners stay, and it is less work than a
 * new file. mode 0: only a regular file that exists is changed, otherwise nothing happens. With a
 * mode, the file is made if need be. 0 or an errno.
 */
int text_put(const char *path, const char *text, mode_t mode);
