/*
 * agent-win.h - what all operations in a Windows guest stand on: scripts of ours for cmd
 * (wincmd.h), put into the guest's directory for temporary files and run by its agent; each removes
 * what the one before it left. Whoever calls these holds the turn.
 */
#pragma once

#include "guest/agent-base.h"
#include "guest/wincmd.h"

int win_check_user(const char *user, struct err *e);
/* The errno that an error of the agent is about, by its words; 0: none that we know. */
int win_errno(const struct err *e);

int win_make_id(char id[WINCMD_ID_LEN + 1], struct err *e);
/* Content as files moat-ID.0 ... of a size that the agent takes. */
int win_put_pieces(struct agent *w, const struct op *op, const char *id, struct bytes content,
	unsigned *ret_pieces, struct err *e);
/* Writes the script that the body makes; utf8: its output must be. */
int win_put_script(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	bool utf8, char path[WINCMD_PATH_MAX], struct err *e);
/* A script of our own, run to its end. What it could not do is an error about path. ret: its
 * output; may be NULL. */
int win_run_own(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	const char *path, struct qga_exit *ret, struct err *e);
