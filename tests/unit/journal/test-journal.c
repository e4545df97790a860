#include "journal/journal.h"

#include <pthread.h>
#include <sqlite3.h>

#include "tap.h"
#include "scratch.h"

static struct journal *open_journal(void)
{
	struct journal *j = NULL;
	struct err e;

	if (journal_open(at("journal"), &j, &e) < 0)
		printf("# %s\n", e.msg);
	return j;
}

/* Adds "kind:ref:state " of each entry to a list, in order. */
static int list_thing(void *arg, const struct journal_entry *t, struct err *e)
{
	return buf_printf(arg, e, "%s:%s:%s ", t->kind, t->ref, t->state);
}

static char *entries(struct journal *j, const char *sandbox)
{
	auto_buf struct buf b = {0};
	struct err e;

	if (journal_each_entry(j, sandbox, list_thing, &b, &e) < 0)
		return NULL;
	return buf_take_str(&b);
}
#define THINGS_ARE(j, sandbox, want)                                                               \
	do {                                                                                       \
		auto_free char *got_ = entries(j, sandbox);                                        \
		tap_str(got_, want, "entries of " #sandbox);                                       \
	} while (0)

static int list_sandbox(void *arg, const struct journal_sandbox *sb, struct err *e)
{
	return buf_printf(arg, e, "%s/%s/%s/%s/%lld ", sb->id, sb->driver, sb->labels, sb->spec,
		(long long)sb->created);
}

static char *sandboxes(struct journal *j)
{
	auto_buf struct buf b = {0};
	struct err e;

	if (journal_each_sandbox(j, list_sandbox, &b, &e) < 0)
		return NULL;
	return buf_take_str(&b);
}
#define SANDBOXES_ARE(j, want)                                                                     \
	do {                                                                                       \
		auto_free char *got_ = sandboxes(j);                                               \
		tap_str(got_, want, "sandboxes");                                                  \
	} while (0)

static int64_t intend(struct journal *j, const char *sandbox, const char *kind, const char *ref)
{
	struct journal_entry t = {.sandbox = sandbox, .driver = "qemu", .kind = kind, .ref = ref};
	int64_t row = -1;
	struct err e;

	return journal_intent(j, &t, &row, &e) < 0 ? -1 : row;
}

/* Entries outlive the process that wrote them, and come youngest first. */
static void test_survives(void)
{
	struct journal *j = open_journal();
	int64_t dir, tree;
	struct err e;

	OK(j);
	dir = intend(j, "s1", "dir", "/x y'z\"");
	tree = intend(j, "s1", "tree", "42");
	OK(dir > 0 && tree > dir && intend(j, "s2", "dir", "/other") > tree);
	OK(journal_done(j, dir, &e) == 0);
	journal_close(j);

	j = open_journal();
	THINGS_ARE(j, "s1", "tree:42:intent dir:/x y'z\":done ");
	THINGS_ARE(j, NULL, "dir:/other:intent tree:42:intent dir:/x y'z\":done ");
	THINGS_ARE(j, "none", "");
	OK(journal_gone(j, tree, &e) == 0 && journal_gone(j, tree, &e) == 0);
	THINGS_ARE(j, "s1", "dir:/x y'z\":done ");
	OK(intend(j, "s1", "tree", "43") > tree); /* row numbers are never used twice */
	journal_close(j);
	journal_close(NULL);
}

static void test_sandboxes(void)
{
	struct journal_sandbox a = {
		.id = "s1", .driver = "qemu", .labels = "{}", .spec = "{1}", .created = 1700000002};
	struct journal_sandbox b = {.id = "s2",
		.driver = "qemu",
		.labels = "{\"a\":1}",
		.spec = "{2}",
		.created = 1700000001};
	struct journal *j = open_journal();
	struct err e;

	OK(journal_sandbox_add(j, &a, &e) == 0 && journal_sandbox_add(j, &b, &e) == 0);
	OK(journal_sandbox_add(j, &a, &e) < 0 && e.kind == ERR_INTERNAL);
	SANDBOXES_ARE(j, "s2/qemu/{\"a\":1}/{2}/1700000001 s1/qemu/{}/{1}/1700000002 ");
	/* A sandbox stays in the journal while it has entries. */
	OK(journal_sandbox_remove_if_empty(j, "s1", &e) == 0);
	SANDBOXES_ARE(j, "s2/qemu/{\"a\":1}/{2}/1700000001 s1/qemu/{}/{1}/1700000002 ");
	OK(journal_sandbox_remove(j, "s1", &e) == 0);
	THINGS_ARE(j, "s1", "");
	THINGS_ARE(j, "s2", "dir:/other:intent ");
	SANDBOXES_ARE(j, "s2/qemu/{\"a\":1}/{2}/1700000001 ");
	OK(journal_sandbox_add(j, &a, &e) == 0);
	OK(journal_sandbox_remove_if_empty(j, "s1", &e) == 0);
	SANDBOXES_ARE(j, "s2/qemu/{\"a\":1}/{2}/1700000001 ");
	OK(journal_sandbox_remove(j, "unknown", &e) == 0);
	OK(journal_sandbox_remove(j, "s2", &e) == 0);
	journal_close(j);
}

/* each() may use the journal, for example to remove the entry. */
static int forget(void *arg, const struct journal_entry *t, struct err *e)
{
	return journal_gone(arg, t->row, e);
}

static int refuse(void *arg, const struct journal_entry *t, struct err *e)
{
	++*(int *)arg;
	return err_set(e, ERR_BUSY, "not %s", t->ref);
}

static void test_each_may_write(void)
{
	struct journal *j = open_journal();
	struct err e;
	int asked = 0;

	OK(intend(j, "s3", "dir", "a") > 0 && intend(j, "s3", "dir", "b") > 0);
	OK(journal_each_entry(j, "s3", refuse, &asked, &e) < 0 && e.kind == ERR_BUSY);
	STR_IS(e.msg, "not b");
	OK(asked == 1);
	OK(journal_each_entry(j, NULL, forget, j, &e) == 0);
	THINGS_ARE(j, NULL, "");
	journal_close(j);
}

static void test_newer_schema(void)
{
	struct journal *j = NULL;
	sqlite3 *db;
	struct err e;

	OK(sqlite3_open(at("newer"), &db) == SQLITE_OK);
	OK(sqlite3_exec(db, "PRAGMA user_version=99; CREATE TABLE thing(x);", 0, 0, 0) == 0);
	sqlite3_close(db);
	OK(journal_open(at("newer"), &j, &e) < 0 && e.kind == ERR_INVALID && !j);
	OK(strstr(e.msg, "newer moat") && strstr(e.msg, "schema 99"));
}

static void test_corrupt(void)
{
	char junk[8192];
	struct journal *j = NULL;
	struct err e;

	memset(junk, 'j', sizeof(junk) - 1);
	junk[sizeof(junk) - 1] = 0;
	put_file(at("corrupt"), junk);
	OK(journal_open(at("corrupt"), &j, &e) < 0 && !j);
	OK(strstr(e.msg, at("corrupt")) && strstr(e.msg, "not a database"));
	OK(strstr(e.msg, "move ") && strstr(e.msg, "docs/configuration.md"));
	OK(mkdir(at("dir"), 0700) == 0 && journal_open(at("dir"), &j, &e) < 0);
	OK(strstr(e.msg, at("dir")) && strstr(e.msg, "unable to open"));
	OK(journal_open(at("no/such"), &j, &e) < 0 && strstr(e.msg, at("no/such")));
}

enum { THREADS = 4, ROWS = 100 };

static void *write_rows(void *arg)
{
	struct journal *j = arg;
	struct err e;
	long bad = 0;

	for (int i = 0; i < ROWS; i++) {
		int64_t row = intend(j, "many", "dir", "x");

		/* Removes half of its entries again. Each thread gets only the rows that
		 * it made. */
		bad += row < 0 || journal_done(j, row, &e) < 0 ||
		       (i % 2 && journal_gone(j, row, &e) < 0);
	}
	return (void *)bad;
}

static int count(void *arg, const struct journal_entry *t, struct err *e)
{
	(void)e;
	*(int *)arg += strcmp(t->state, "done") == 0;
	return 0;
}

static void test_threads(void)
{
	struct journal *j = open_journal();
	pthread_t threads[THREADS];
	int done = 0;
	struct err e;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, write_rows, j);
	for (int i = 0; i < THREADS; i++) {
		void *bad;

		pthread_join(threads[i], &bad);
		OK(bad == NULL);
	}
	OK(journal_each_entry(j, "many", count, &done, &e) == 0 && done == THREADS * ROWS / 2);
	journal_close(j);
}

/* SIGKILL while a process writes: all entries that it reported as written are there. */
static void test_killed(void)
{
	int fds[2];
	int64_t last = 0, row;
	struct journal *j;
	int rows = 0, told = 0;
	struct err e;
	pid_t pid;

	j = open_journal();
	OK(journal_each_entry(j, NULL, forget, j, &e) == 0);
	journal_close(j);
	OK(pipe(fds) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		j = open_journal();
		for (;;) {
			row = intend(j, "killed", "dir", "x");
			if (journal_done(j, row, &e) < 0 || write(fds[1], &row, 8) != 8)
				_exit(1);
		}
	}
	close(fds[1]);
	while (told < 50 && read(fds[0], &row, 8) == 8)
		told++;
	OK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	while (read(fds[0], &row, 8) == 8) {
		told++;
		last = row;
	}
	close(fds[0]);
	j = open_journal();
	OK(j && journal_each_entry(j, "killed", count, &rows, &e) == 0);
	OK(told >= 50 && rows >= told);
	OK(intend(j, "after", "dir", "x") > last);
	journal_close(j);
}

int main(void)
{
	scratch_begin();
	test_survives();
	test_sandboxes();
	test_each_may_write();
	test_newer_schema();
	test_corrupt();
	test_killed(); /* it forks, so it runs before there are threads */
	test_threads();
	scratch_end();
	return tap_done();
}
