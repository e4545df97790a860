#include "journal/journal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/thread/lock.h"
#include "util/str.h"

enum { SCHEMA_VERSION = 1 };

/*
 * synchronous=NORMAL: if the daemon is killed, no row is lost. A power cut may lose the last rows,
 * but it ends the processes too, and directories without a row are found by name.
 *
 * The table is called "thing" because journals of earlier versions have it; everywhere else its
 * rows are entries.
 */
static const char schema[] = "PRAGMA journal_mode=WAL;"
			     "PRAGMA synchronous=NORMAL;"
			     "PRAGMA foreign_keys=ON;"
			     "CREATE TABLE IF NOT EXISTS sandbox("
			     " id TEXT PRIMARY KEY, driver TEXT NOT NULL, labels TEXT NOT NULL,"
			     " spec TEXT NOT NULL, created INTEGER NOT NULL) STRICT;"
			     "CREATE TABLE IF NOT EXISTS thing("
			     " row INTEGER PRIMARY KEY AUTOINCREMENT, sandbox TEXT NOT NULL,"
			     " driver TEXT NOT NULL, kind TEXT NOT NULL, ref TEXT NOT NULL,"
			     " state TEXT NOT NULL) STRICT;"
			     "CREATE INDEX IF NOT EXISTS thing_sandbox ON thing(sandbox);";

struct journal {
	struct lock mu;
	sqlite3 *db;
};

static int fail_locked(struct journal *j, const char *what, struct err *e)
{
	int code = sqlite3_errcode(j->db);

	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		return err_set(e, ERR_INTERNAL,
			"journal: %s: %s; stop the daemon and move %s away: docs/configuration.md "
			"says what that means",
			what, sqlite3_errmsg(j->db), sqlite3_db_filename(j->db, "main"));
	err_set(e, ERR_INTERNAL, "journal: %s: %s%s", what, sqlite3_errmsg(j->db),
		code == SQLITE_FULL ? " (disk full)" : "");
	e->sys = code == SQLITE_FULL ? ENOSPC : 0;
	return -1;
}

static int check_version_locked(struct journal *j, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int version = -1;

	if (sqlite3_prepare_v2(j->db, "PRAGMA user_version", -1, &st, NULL) == SQLITE_OK &&
		sqlite3_step(st) == SQLITE_ROW)
		version = sqlite3_column_int(st, 0);
	sqlite3_finalize(st);
	if (version < 0)
		return fail_locked(j, "version", e);
	if (version > SCHEMA_VERSION)
		return err_set(e, ERR_INVALID,
			"the journal was written by a newer moat (schema %d, this one knows %d)",
			version, SCHEMA_VERSION);
	if (version < SCHEMA_VERSION &&
		sqlite3_exec(j->db, "PRAGMA user_version=1", NULL, NULL, NULL) != SQLITE_OK)
		return fail_locked(j, "version", e);
	return 0;
}

int journal_open(const char *path, struct journal **ret, struct err *e)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return err_oom(e);
	lock_init(&j->mu, "journal.mu", LOCK_OUTER);
	if (sqlite3_open_v2(path, &j->db,
		    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
		    NULL) != SQLITE_OK) {
		fail_locked(j, path, e);
		journal_close(j);
		return -1;
	}
	sqlite3_busy_timeout(j->db, 5000);
	/* Check the version before anything else: a newer moat's tables must not be changed. */
	if (check_version_locked(j, e) < 0) {
		journal_close(j);
		return err_wrap(e, "%s", path);
	}
	if (sqlite3_exec(j->db, schema, NULL, NULL, NULL) != SQLITE_OK) {
		fail_locked(j, "schema", e);
		journal_close(j);
		return err_wrap(e, "%s", path);
	}
	*ret = j;
	return 0;
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	sqlite3_close(j->db);
	lock_done(&j->mu);
	free(j);
}

static void finalize(sqlite3_stmt **st)
{
	sqlite3_finalize(*st);
}
#define auto_stmt __attribute__((cleanup(finalize)))

/* Prepares a statement whose parameters ?1, ?2... are the given texts, up to a NULL. */
static int prepare_locked(struct journal *j, const char *sql, const char *const *texts,
	sqlite3_stmt **ret, struct err *e)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(j->db, sql, -1, &st, NULL) != SQLITE_OK)
		return fail_locked(j, "prepare", e);
	for (int i = 0; texts[i]; i++)
		sqlite3_bind_text(st, i + 1, texts[i], -1, SQLITE_TRANSIENT);
	*ret = st;
	return 0;
}

static int run_texts_locked(
	struct journal *j, const char *sql, const char *const *texts, struct err *e)
{
	auto_stmt sqlite3_stmt *st = NULL;

	if (prepare_locked(j, sql, texts, &st, e) < 0)
		return -1;
	return sqlite3_step(st) == SQLITE_DONE ? 0 : fail_locked(j, "write", e);
}

static int run_row(struct journal *j, const char *sql, int64_t row, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&j->mu);
	auto_stmt sqlite3_stmt *st = NULL;

	if (prepare_locked(j, sql, (const char *const[]){NULL}, &st, e) < 0)
		return -1;
	sqlite3_bind_int64(st, 1, row);
	return sqlite3_step(st) == SQLITE_DONE ? 0 : fail_locked(j, "write", e);
}

int journal_sandbox_add(struct journal *j, const struct journal_sandbox *sb, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&j->mu);
	char created[32];
	const char *const texts[] = {sb->id, sb->driver, sb->labels, sb->spec, created, NULL};

	snprintf(created, sizeof(created), "%lld", (long long)sb->created);
	return run_texts_locked(j,
		"INSERT INTO sandbox(id, driver, labels, spec, created)"
		" VALUES(?1, ?2, ?3, ?4, CAST(?5 AS INTEGER))",
		texts, e);
}

int journal_sandbox_relabel(struct journal *j, const char *id, const char *labels, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&j->mu);

	return run_texts_locked(j, "UPDATE sandbox SET labels = ?2 WHERE id = ?1",
		(const char *const[]){id, labels, NULL}, e);
}

int journal_sandbox_remove(struct journal *j, const char *id, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&j->mu);
	const char *const texts[] = {id, NULL};

	if (run_texts_locked(j, "DELETE FROM thing WHERE sandbox = ?1", texts, e) < 0)
		return -1;
	return run_texts_locked(j, "DELETE FROM sandbox WHERE id = ?1", texts, e);
}

int journal_sandbox_remove_if_empty(struct journal *j, const char *id, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&j->mu);
	const char *const texts[] = {id, NULL};

	return run_texts_locked(j,
		"DELETE FROM sandbox WHERE id = ?1 AND NOT EXISTS"
		" (SELECT 1 FROM thing WHERE thing.sandbox = sandbox.id)",
		texts, e);
}

int journal_intent(
	struct journal *j, const struct journal_entry *t, int64_t *ret_row, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&j->mu);
	const char *const texts[] = {t->sandbox, t->driver, t->kind, t->ref, NULL};

	if (run_texts_locked(j,
		    "INSERT INTO thing(sandbox, driver, kind, ref, state) VALUES(?1, ?2, ?3, ?4, "
		    "'intent')",
		    texts, e) < 0)
		return -1;
	*ret_row = sqlite3_last_insert_rowid(j->db);
	return 0;
}

int journal_done(struct journal *j, int64_t row, struct err *e)
{
	return run_row(j, "UPDATE thing SET state = 'done' WHERE row = ?1", row, e);
}

int journal_gone(struct journal *j, int64_t row, struct err *e)
{
	return run_row(j, "DELETE FROM thing WHERE row = ?1", row, e);
}

/* Rows that were copied, so that no statement or lock is held while the caller works on them. */
struct copied {
	char **cells; /* texts, one for each column of each row */
	size_t rows;
	int columns;
};

static void copied_free(struct copied *c)
{
	for (size_t i = 0; i < c->rows * (size_t)c->columns; i++)
		free(c->cells[i]);
	free(c->cells);
}

static int copy_row_locked(sqlite3_stmt *st, struct copied *c, struct err *e)
{
	size_t n = c->rows * (size_t)c->columns;
	char **cells = realloc(c->cells, (n + (size_t)c->columns) * sizeof(char *));

	if (!cells)
		return err_oom(e);
	c->cells = cells;
	for (int i = 0; i < c->columns; i++) {
		const unsigned char *text = sqlite3_column_text(st, i);

		cells[n + (size_t)i] = strdup(text ? (const char *)text : "");
	}
	c->rows++;
	for (int i = 0; i < c->columns; i++)
		if (!cells[n + (size_t)i])
			return err_oom(e);
	return 0;
}

static int select_all(struct journal *j, const char *sql, const char *const *texts,
	struct copied *ret, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&j->mu);
	auto_stmt sqlite3_stmt *st = NULL;
	int rc;

	if (prepare_locked(j, sql, texts, &st, e) < 0)
		return -1;
	ret->columns = sqlite3_column_count(st);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		if (copy_row_locked(st, ret, e) < 0)
			return -1;
	return rc == SQLITE_DONE ? 0 : fail_locked(j, "read", e);
}

int journal_each_entry(struct journal *j, const char *sandbox,
	int (*each)(void *arg, const struct journal_entry *t, struct err *e), void *arg,
	struct err *e)
{
	__attribute__((cleanup(copied_free))) struct copied c = {0};
	const char *const texts[] = {sandbox, NULL};
	const char *sql = sandbox ? "SELECT row, sandbox, driver, kind, ref, state FROM thing"
				    " WHERE sandbox = ?1 ORDER BY row DESC"
				  : "SELECT row, sandbox, driver, kind, ref, state FROM thing"
				    " ORDER BY row DESC";

	if (select_all(j, sql, texts, &c, e) < 0)
		return -1;
	for (size_t i = 0; i < c.rows; i++) {
		char **cell = c.cells + i * (size_t)c.columns;
		struct journal_entry t = {.row = atoll(cell[0]),
			.sandbox = cell[1],
			.driver = cell[2],
			.kind = cell[3],
			.ref = cell[4],
			.state = cell[5]};

		if (each(arg, &t, e) < 0)
			return -1;
	}
	return 0;
}

int journal_each_sandbox(struct journal *j,
	int (*each)(void *arg, const struct journal_sandbox *sb, struct err *e), void *arg,
	struct err *e)
{
	__attribute__((cleanup(copied_free))) struct copied c = {0};
	const char *const none[] = {NULL};

	if (select_all(j, "SELECT id, driver, labels, spec, created FROM sandbox ORDER BY created",
		    none, &c, e) < 0)
		return -1;
	for (size_t i = 0; i < c.rows; i++) {
		char **cell = c.cells + i * (size_t)c.columns;
		struct journal_sandbox sb = {.id = cell[0],
			.driver = cell[1],
			.labels = cell[2],
			.spec = cell[3],
			.created = atoll(cell[4])};

		if (each(arg, &sb, e) < 0)
			return -1;
	}
	return 0;
}
