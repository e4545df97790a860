/*
 * windows-script.h - runs scripts for cmd (wincmd.h) in a Windows guest, for all operations there:
 * puts them into the guest's temporary directory and lets the agent run them. Each script removes
 * the files of the one before. Callers hold the turn.
 */
#pragma once

#include "guestlink/agent/common.h"
#include "guestlink/agent/wincmd.h"

int win_check_user(const char *user, struct err *e);

int win_make_id(char id[WINCMD_ID_LEN + 1], struct err *e);
/* Writes content as files moat-ID.0 ..., each of a size that the agent takes. */
int win_put_pieces(struct agent *w, const struct op *op, const char *id, struct bytes content,
	unsigned *ret_pieces, struct err *e);
/* Writes a script with this body. utf8: its output must be UTF-8. */
int win_put_script(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	bool utf8, char path[WINCMD_PATH_MAX], struct err *e);
/* Runs a script to its end. Its failure becomes an error about path. ret: its output; may
 * be NULL. */
int win_run_own(struct agent *w, const struct op *op, const char *id, const struct buf *body,
	const char *path, struct qga_exit *ret, struct err *e);
