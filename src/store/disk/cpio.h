/* cpio.h - archives as the kernel unpacks them into an initramfs ("newc"). Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "util/buf.h"

struct cpio_entry {
	const char *path; /* without a slash at the beginning */
	uint32_t mode;    /* with the type: S_IFREG, S_IFDIR */
	uint32_t uid, gid, mtime, inode;
	struct bytes content;
};
/* Adds an entry, and the end of an archive. Failures are in the buffer. */
void cpio_put(struct buf *b, const struct cpio_entry *entry);
void cpio_end(struct buf *b);
/* Whether archives, one after the other, have that path, given without a slash at the beginning.
 * What is compressed is not looked into. */
bool cpio_has(struct bytes archives, const char *path);
