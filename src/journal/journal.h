/*
 * journal.h - what moat has made, or was about to make, outside its own memory. SQLite, WAL.
 * Thread-safe: one connection, and a lock that is held while SQLite writes.
 *
 * An entry stands for one effect that can be removed: a directory, a process tree, a VM on a
 * server. Its row is written with state "intent" before the effect, becomes "done" after it and is
 * deleted after the effect is gone. Rows that a new daemon finds were left by an earlier one: the
 * driver that wrote a row removes the effect, whatever its state.
 */
#pragma once

#include <stdint.h>

#include "util/err.h"

struct journal;

struct journal_entry {
	int64_t row;
	const char *sandbox; /* id; "" for entries that belong to no sandbox */
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
/* Deletes the sandbox and its entries: call it when their effects are gone. */
int journal_sandbox_remove(struct journal *j, const char *id, struct err *e);
/* Deletes the sandbox only if none of its entries is left; those still have to be reclaimed. */
int journal_sandbox_remove_if_empty(struct journal *j, const char *id, struct err *e);
int journal_each_sandbox(struct journal *j,
	int (*each)(void *arg, const struct journal_sandbox *sb, struct err *e), void *arg,
	struct err *e);

/* Writes an entry with state "intent" and sets *ret_row to its row. */
int journal_intent(
	struct journal *j, const struct journal_entry *t, int64_t *ret_row, struct err *e);
int journal_done(struct journal *j, int64_t row, struct err *e);
int journal_gone(struct journal *j, int64_t row, struct err *e);
/*
 * Calls each() for the entries of a sandbox, or of all if sandbox is NULL; the youngest first, as
 * effects are removed in the opposite order of their making. All rows are read before the first
 * call, so each() may use the journal.
 */
int journal_each_entry(struct journal *j, const char *sandbox,
	int (*each)(void *arg, const struct journal_entry *t, struct err *e), void *arg,
	struct err *e);
