/* outfile.h - a local file that receives content from a sandbox. If we made it and do not finish
 * it, it is removed again. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "util/buf.h"

struct outfile {
	int dir_fd;       /* borrowed; AT_FDCWD for a path that the user typed */
	const char *name; /* borrowed */
	bool trusted;     /* the user typed the name: follow links, write to devices */
	int fd;           /* -1: not open */
	bool created;
};

/* Opens the file; the members above fd are set by the caller. If not trusted, the name must not
 * exist or must be a plain file. */
int outfile_open(struct outfile *f, struct err *e);
int outfile_write(struct outfile *f, struct bytes data, struct err *e);
/* Closes the file. If we made it, it gets the mode, less the umask, setuid, setgid and sticky. */
int outfile_finish(struct outfile *f, mode_t mode, struct err *e);
void outfile_abort(struct outfile *f);
#define auto_outfile __attribute__((cleanup(outfile_abort)))

/* The umask. Reading it means setting it for a moment. */
mode_t current_umask(void);
