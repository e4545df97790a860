/* Scripts for cmd, letter by letter, and what they answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/wincmd.h"
#include "tap.h"
#include "util/auto.h"

static void is_text(struct buf *b, const char *want)
{
	auto_free char *text = buf_take_str(b);

	STR_IS(text ? text : "", want);
}

static void test_paths(void)
{
	static const struct {
		const char *cwd, *path, *want;
	} cases[] = {
		{NULL, "C:/a/b", "C:\\a\\b"},
		{"C:\\dir", "b.txt", "C:\\dir\\b.txt"},
		{"C:\\dir", "D:\\b", "D:\\b"},
		{"C:\\dir", "\\b", "\\b"},
		{NULL, "b.txt", "b.txt"},
	};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *got = NULL;

		OK(wincmd_full_path(cases[i].cwd, cases[i].path, &got, &e) == 0);
		STR_IS(got, cases[i].want);
	}
	OK(wincmd_is_builtin("DIR") && wincmd_is_builtin("echo") && !wincmd_is_builtin("ping"));
}

static void test_exec(void)
{
	const char *const argv[] = {
		"C:/My App/p.exe", "", "a b", "a\"b", "50%", "x&y", "c:\\d e\\", "\\\"", NULL};
	const char *const simple[] = {"whoami", NULL}, *const env[] = {"A=b \"c\"|%d^", NULL};
	const char *const broken[] = {"p", "a\nb", NULL}, *const option[] = {"/a=1", NULL};
	struct guest_exec req = {.argv = argv};
	auto_free char *long_word = calloc(1, 9000);
	const char *const large[] = {"p", long_word, NULL};
	auto_buf struct buf b = {0};
	struct err e;

	OK(wincmd_exec(&b, "0123456789abcdef", &req, NULL, &e) == 0);
	is_text(&b, "\"C:\\My App\\p.exe\" ^\"^\" ^\"a b^\" ^\"a\\^\"b^\" 50%% x^&y "
		    "^\"c:\\d e\\\\^\" ^\"\\\\\\^\"^\"\r\n");
	req = (struct guest_exec){.argv = simple, .env = env, .cwd = "C:/100%"};
	OK(wincmd_exec(&b, "0123456789abcdef", &req, "C:\\in", &e) == 0);
	is_text(&b, "cd /d \"C:\\100%%\" 2>nul && goto run\r\n"
		    "if exist \"C:\\100%%\" >&2 echo 0123456789abcdef 120\r\n"
		    "if not exist \"C:\\100%%\" >&2 echo 0123456789abcdef 102\r\n"
		    "exit /b 1\r\n:run\r\n"
		    "set A=b ^\"c^\"^|%%d^^\r\nwhoami <\"C:\\in\"\r\n");
	req = (struct guest_exec){.argv = broken};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.kind == ERR_UNSUPPORTED);
	req = (struct guest_exec){.argv = simple, .env = option};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.kind == ERR_UNSUPPORTED);
	req = (struct guest_exec){.argv = simple, .cwd = "C:\\\" & del x"};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.sys == EINVAL);
	memset(long_word, 'x', 8999);
	req = (struct guest_exec){.argv = large};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.kind == ERR_LIMIT);
}

static void test_not_run(void)
{
	static const struct {
		const char *text;
		bool found;
		int sys;
	} cases[] = {
		{"0123456789abcdef 102\r\n", true, ENOENT},
		{"0123456789abcdef 120\r\n", true, ENOTDIR},
		{"0123456789abcdef 1\r\n", false, 0},
		{"0123456789abcdeX 102\r\n", false, 0},
		{"", false, 0},
		{"something else that is longer than such a line ever is\r\n", false, 0},
	};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_buf struct buf b = {0};
		struct guest_exit x = {0};

		OK(buf_add_str(&b, cases[i].text, &e) == 0);
		OK(wincmd_parse_not_run(&b, "0123456789abcdef", "C:\\x", &x) == cases[i].found);
		OK(x.sys == cases[i].sys && x.code == (cases[i].found ? 126 : 0));
	}
}

static void test_join(void)
{
	auto_buf struct buf b = {0};
	auto_free char *text = NULL;
	size_t copies = 0;
	struct err e;

	OK(wincmd_join(&b, "id", 2, "C:\\a b", &e) == 0);
	is_text(&b,
		"if not exist \"C:\\a b\" type nul >\"C:\\a b\"\r\n"
		"copy /b /y \"C:\\a b\"+C:\\Windows\\Temp\\moat-id.0+C:\\Windows\\Temp\\moat-id.1 "
		"\"C:\\a b\" >nul || exit /b 105\r\n");
	OK(wincmd_join(&b, "0123456789abcdef", 130, "C:\\a", &e) == 0);
	text = buf_take_str(&b);
	for (const char *p = text, *end; p && *p; p = end ? end + 2 : NULL) {
		end = strstr(p, "\r\n");
		OK(end && end - p < 8191);
		copies += strncmp(p, "copy ", 5) == 0;
	}
	OK(copies == 3);
}

static char seen[200];

static int each(void *arg, const struct guest_entry *entry, struct err *e)
{
	size_t n = strlen(seen);

	(void)arg;
	(void)e;
	snprintf(seen + n, sizeof(seen) - n, "%s %o %llu;", entry->name, entry->mode,
		(unsigned long long)entry->size);
	return 0;
}

static void test_list(void)
{
	static const char text[] = "d----------/0/dir\r\n--a--------/12/a & b.txt\r\n"
				   "-ra--------/3/r\r\nd-------l--//junction\r\n";
	static const char *const bad[] = {"x\r\n", "d---/1\r\n", "--a/twelve/n\r\n"};
	struct err e;

	OK(wincmd_parse_list(
		   (struct bytes){(const uint8_t *)text, sizeof(text) - 1}, each, NULL, &e) == 0);
	STR_IS(seen, "dir 40755 0;a & b.txt 100644 12;r 100444 3;junction 20000 0;");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		OK(wincmd_parse_list((struct bytes){(const uint8_t *)bad[i], strlen(bad[i])}, each,
			   NULL, &e) < 0 &&
			e.kind == ERR_UNAVAILABLE);
}

int main(void)
{
	test_paths();
	test_exec();
	test_not_run();
	test_join();
	test_list();
	return tap_done();
}
