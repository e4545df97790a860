/*
 * wincmd.h - makes scripts for cmd, the shell of Windows, and parses what they print. Pure. Values
 * are quoted so that cmd sees nothing but values in them.
 *
 * Our scripts exit with 100 + errno where they can tell the reason.
 */
#pragma once

#include "guestlink/guest.h"

/* A fixed path, as the agent expands no variables; it exists on every Windows. */
#define WINCMD_TEMP "C:\\Windows\\Temp"

enum {
	WINCMD_ERRNO = 100,
	WINCMD_ID_LEN = 16,
	WINCMD_PATH_MAX = 64,
	WINCMD_SHOWN_MAX =
		256 * 1024, /* bytes of each stream of a command that its script prints */
};

/* WINCMD_TEMP\\moat-ID.ENDING */
void wincmd_temp_path(const char *id, const char *ending, char path[WINCMD_PATH_MAX]);

/* Makes a path for cmd and the agent: with backslashes, and below cwd if that is given. */
int wincmd_full_path(const char *cwd, const char *path, char **ret, struct err *e);
/* Whether this is a command of cmd itself, without a program. */
bool wincmd_is_builtin(const char *name);

/* Adds a script's first lines. They remove the files of the script old_id (NULL: none). utf8: the
 * script is UTF-8 and so is its output, whatever the guest's code page is. */
int wincmd_begin(struct buf *b, const char *old_id, bool utf8, struct err *e);
/* Adds lines that append the pieces WINCMD_TEMP\moat-ID.0 ... to a file, and delete the pieces. */
int wincmd_join(struct buf *b, const char *id, unsigned pieces, const char *path, struct err *e);
/*
 * Adds req's command, in its directory and environment; input: a file, or NULL. The output goes to
 * the files moat-ID.out and moat-ID.err. At its end the script prints their sizes, and those of
 * them that are not larger than WINCMD_SHOWN_MAX.
 */
int wincmd_exec(struct buf *b, const char *id, const struct guest_exec *req, const char *input,
	struct err *e);

struct wincmd_end {
	int no_cwd;      /* ENOENT or ENOTDIR: the command did not run, because of its directory */
	bool no_program; /* the command did not run, because its program is missing */
	bool has_sizes;  /* the script reached its end */
	uint64_t sizes[2]; /* of stdout and stderr */
};
/* Parses what wincmd_exec's script itself printed at the beginning of stderr, and removes that. */
void wincmd_parse_end(struct buf *err, const char *id, struct wincmd_end *ret);
int wincmd_mkdir(struct buf *b, const char *path, struct err *e);
/* Adds lines that find out why a file could not be opened: exit code 100 + EISDIR, ENOENT or
 * EACCES. */
int wincmd_why(struct buf *b, const char *path, struct err *e);
int wincmd_list(struct buf *b, const char *path, struct err *e);
int wincmd_parse_list(struct bytes out,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e);
