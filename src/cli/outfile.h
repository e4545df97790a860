/*
 * outfile.h - a local file that takes what comes from a sandbox. If it was not there before and is
 * not finished, it is removed again.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "util/buf.h"

struct outfile {
	int dir_fd;       /* borrowed; AT_FDCWD for names that people typed */
	const char *name; /* borrowed */
	bool trusted;     /* typed by our user: links are followed, devices written to */
	int fd;           /* -1: not open */
	bool created;
};
#define OUTFILE_NONE ((struct outfile){.fd = -1})

/* The other members are set. Without trusted the name must be a plain file or nothing at all. */
int outfile_open(struct outfile *f, struct err *e);
int outfile_write(struct outfile *f, struct bytes data, struct err *e);
/* A file that we made gets the mode, less the umask and less setuid, setgid and sticky. */
int outfile_finish(struct outfile *f, mode_t mode, struct err *e);
void outfile_abort(struct outfile *f);
#define auto_outfile __attribute__((cleanup(outfile_abort)))

/* The umask, which cannot be asked for without setting it. */
mode_t current_umask(void);
