#include "util/err.h"

#include <errno.h>

#include <stdbool.h>

#include "tap.h"
#include "util/auto.h"

static void test_set(void)
{
	struct err e = {.sys = 99};

	OK(err_set(&e, ERR_BUSY, "no room for %d", 7) == -1);
	OK(e.kind == ERR_BUSY && e.sys == 0 && e.line > 0 && strstr(e.file, "test-err.c"));
	STR_IS(e.msg, "no room for 7");
}

static void test_shortage(void)
{
	struct err e;

	OK(err_oom(&e) == -1 && e.kind == ERR_INTERNAL && err_is_shortage(&e));
	OK(err_sys(&e, EMFILE, "open") == -1 && err_is_shortage(&e));
	OK(err_sys(&e, ENOENT, "open") == -1 && !err_is_shortage(&e));
	OK(err_set(&e, ERR_BUSY, "no room") == -1 && !err_is_shortage(&e));
}

static void test_sys(void)
{
	char long_name[2 * sizeof(((struct err *)0)->msg)];
	struct err e;

	errno = EIO; /* must not be used */
	OK(err_sys(&e, ENOENT, "open %s", "x") == -1);
	OK(e.kind == ERR_NOT_FOUND && e.sys == ENOENT);
	STR_IS(e.msg, "open x: No such file or directory");
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	err_sys(&e, EACCES, "%s", long_name);
	OK(e.kind == ERR_PERMISSION && strstr(e.msg, "nnn: Permission denied"));
}

/* However much is put in front, the cause stays complete, at the end. */
static void test_wrap_keeps_cause(void)
{
	static const char cause[] = "the very first cause";
	char filler[4096];
	struct err e;

	err_set(&e, ERR_LIMIT, "%s", cause);
	OK(err_wrap(&e, "step %d", 1) == -1);
	STR_IS(e.msg, "step 1: the very first cause");
	OK(e.kind == ERR_LIMIT);
	memset(filler, 'f', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = 0;
	for (int i = 0; i < 100; i++)
		err_wrap(&e, "layer %d of %.50s", i, filler);
	OK(strlen(e.msg) < sizeof(e.msg));
	STR_IS(e.msg + strlen(e.msg) - strlen(cause), cause);
	err_wrap(&e, "%s", filler);
	STR_IS(e.msg + strlen(e.msg) - strlen(cause), cause);
	err_set(&e, ERR_LIMIT, "%s", filler); /* no room at all for a prefix */
	err_wrap(&e, "prefix");
	OK(strspn(e.msg, "f") == sizeof(e.msg) - 1);
}

static void test_wrap_says_nothing_twice(void)
{
	struct err e;

	err_set(&e, ERR_BACKEND, "no");
	err_wrap(&e, "VM %s", "web");
	err_wrap(&e, "VM %s", "web");
	STR_IS(e.msg, "VM web: no");
	err_wrap(&e, "VM");
	STR_IS(e.msg, "VM: VM web: no");
	err_wrap(&e, "VM web");
	STR_IS(e.msg, "VM web: VM: VM web: no");
}

static void test_wrap_of_itself(void)
{
	struct err e;

	err_set(&e, ERR_INVALID, "cause");
	err_wrap(&e, "%s again", e.msg);
	STR_IS(e.msg, "cause again: cause");
}

static void test_names(void)
{
	bool all = true;

	for (int k = 0; k < ERR_KIND_COUNT; k++)
		all &= err_kind_from_name(err_kind_name(k)) == (enum err_kind)k;
	OK(all);
	STR_IS(err_kind_name(ERR_IS_DIR), "is_directory");
	STR_IS(err_kind_name((enum err_kind)999), "internal");
	OK(err_kind_from_name("surprise") == ERR_INTERNAL);
}

static void test_from_errno(void)
{
	static const struct {
		int eno;
		enum err_kind kind;
	} rows[] = {{ENOENT, ERR_NOT_FOUND}, {ENOTDIR, ERR_NOT_FOUND}, {EPERM, ERR_PERMISSION},
		{EROFS, ERR_PERMISSION}, {EISDIR, ERR_IS_DIR}, {EFBIG, ERR_LIMIT},
		{ENAMETOOLONG, ERR_INVALID}, {ETIMEDOUT, ERR_TIMEOUT}, {EIO, ERR_INTERNAL},
		{ENOSPC, ERR_INTERNAL}};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		tap_ok(err_kind_from_errno(rows[i].eno) == rows[i].kind, "%s is %s",
			strerror(rows[i].eno), err_kind_name(rows[i].kind));
}

int main(void)
{
	test_set();
	test_sys();
	test_shortage();
	test_wrap_keeps_cause();
	test_wrap_says_nothing_twice();
	test_wrap_of_itself();
	test_names();
	test_from_errno();
	return tap_done();
}
