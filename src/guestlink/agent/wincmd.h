/*
 * wincmd.h - scripts for cmd, the shell of Windows, and what they answer. Pure. Values are
 * written into a script in such a way that cmd takes them for nothing but values.
 *
 * Our own scripts end with 100 + errno where they can tell.
 */
#pragma once

#include "guest/guest.h"

/* The agent expands no variables, and this directory is always there. */
#define WINCMD_TEMP "C:\\Windows\\Temp"

enum {
	WINCMD_ERRNO = 100,
	WINCMD_ID_LEN = 16,
	WINCMD_PATH_MAX = 64,
	WINCMD_SHOWN_MAX = 256 * 1024, /* of each stream of a command */
};

/* WINCMD_TEMP\\moat-ID.ENDING */
void wincmd_temp_path(const char *id, const char *ending, char path[WINCMD_PATH_MAX]);

/* A path as cmd and the agent take it: backslashes, and below cwd if that is given. */
int wincmd_full_path(const char *cwd, const char *path, char **ret, struct err *e);
/* Whether cmd itself has this command: there is no such program. */
bool wincmd_is_builtin(const char *name);

/* The first lines: removes what a script of that id left (NULL: none did); utf8: what follows is
 * read, and what is written is in UTF-8, not in the code page that the guest has. */
int wincmd_begin(struct buf *b, const char *old_id, bool utf8, struct err *e);
/* The pieces WINCMD_TEMP\moat-ID.0 ... become the end of a file, and go. */
int wincmd_join(struct buf *b, const char *id, unsigned pieces, const char *path, struct err *e);
/*
 * req's command in its directory and environment; input: a file, or NULL. Its output goes to the
 * files moat-ID.out and moat-ID.err. The script ends by saying their sizes, and shows what is not
 * larger than WINCMD_SHOWN_MAX.
 */
int wincmd_exec(struct buf *b, const char *id, const struct guest_exec *req, const char *input,
	struct err *e);

struct wincmd_end {
	int no_cwd;        /* ENOENT or ENOTDIR: it did not run, for want of its directory */
	bool no_program;   /* nor of the program */
	bool has_sizes;    /* it came to its end */
	uint64_t sizes[2]; /* of stdout and stderr */
};
/* What such a script said itself at the beginning of its stderr. Takes that off. */
void wincmd_parse_end(struct buf *err, const char *id, struct wincmd_end *ret);
int wincmd_mkdir(struct buf *b, const char *path, struct err *e);
/* Ends with 100 + EISDIR, ENOENT, or EACCES: why a file could not be opened. */
int wincmd_why(struct buf *b, const char *path, struct err *e);
int wincmd_list(struct buf *b, const char *path, struct err *e);
int wincmd_parse_list(struct bytes out,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e);
