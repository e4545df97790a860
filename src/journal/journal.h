/*
 * journal.h - what moat has made, or was about to make, outside its own memory. SQLite, WAL.
 * Thread-safe: one connection, one mutex, never taken together with another lock.
 *
 * A thing is one removable effect: a directory, a process tree, later a VM on a server. Its row is
 * written with state "intent" before the effect, becomes "done" after it and is deleted after the
 * thing itself is gone. Rows that a new daemon finds are what an earlier one left: the driver that
 * wrote a row removes the thing, whatever its state.
 */
#pragma once

#include <stdint.h>

#include "util/err.h"

struct journal;

struct journal_thing {
	int64_t row;
	const char *sandbox; /* id; "" for things that belong to no sandbox */
	const char *driver, *kind, *ref;
	const char *state; /* "intent", "done" */
};

struct journal_sandbox {
	const char *id, *driver;
	const char *labels, *spec; /* JSON text */
	int64_t created;           /* unix seconds */
};

int journal_open(const char *path, struct journal **ret, struct err *e);
void journal_close(struct journal *j); /* NULL is fine */

int journal_sandbox_add(struct journal *j, const struct journal_sandbox *sb, struct err *e);
int journal_sandbox_relabel(struct journal *j, const char *id, const char *labels, struct err *e);
/* Also forgets its things: call it when they are gone. */
int journal_sandbox_remove(struct journal *j, const char *id, struct err *e);
/* Only if none of its things is left; otherwise they still have to be reclaimed. */
int journal_sandbox_remove_if_empty(struct journal *j, const char *id, struct err *e);
int journal_each_sandbox(struct journal *j,
	int (*each)(void *arg, const struct journal_sandbox *sb, struct err *e), void *arg,
	struct err *e);

/* Fills *ret_row; the other members of t are the caller's. */
int journal_intent(
	struct journal *j, const struct journal_thing *t, int64_t *ret_row, struct err *e);
int journal_done(struct journal *j, int64_t row, struct err *e);
int journal_gone(struct journal *j, int64_t row, struct err *e);
/*
 * The youngest first: things are removed in the opposite order of their making. sandbox NULL: of
 * all. The rows are read before the first call, so each() may use the journal.
 */
int journal_each_thing(struct journal *j, const char *sandbox,
	int (*each)(void *arg, const struct journal_thing *t, struct err *e), void *arg,
	struct err *e);
