/* Scripts for cmd, character by character, and parsing what they print. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "guestlink/agent/wincmd.h"
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

#define ID   "0123456789abcdef"
#define OUT  "C:\\Windows\\Temp\\moat-" ID ".out"
#define ERR  "C:\\Windows\\Temp\\moat-" ID ".err"
#define INTO ">" OUT " 2>" ERR " "
#define END                                                                                        \
	"set moat=%errorlevel%\r\n"                                                                \
	"for %%f in (" OUT " " ERR ") do >&2 echo " ID " size %%~zf\r\n"                           \
	"for %%f in (" OUT ") do if %%~zf LEQ 262144 type %%f\r\n"                                 \
	"for %%f in (" ERR ") do if %%~zf LEQ 262144 >&2 type %%f\r\n"                             \
	"exit /b %moat%\r\n"

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

	OK(wincmd_exec(&b, ID, &req, NULL, &e) == 0);
	is_text(&b, "for %%x in (\"\" .com .exe .bat .cmd) do "
		    "if exist \"C:\\My App\\p.exe%%~x\" goto run\r\n"
		    ">&2 echo " ID " program\r\nexit /b 1\r\n:run\r\n" INTO
		    "\"C:\\My App\\p.exe\" ^\"^\" ^\"a b^\" ^\"a\\^\"b^\" 50%% x^&y "
		    "^\"c:\\d e\\\\^\" ^\"\\\\\\^\"^\"\r\n" END);
	req = (struct guest_exec){.argv = simple, .env = env, .cwd = "C:/100%"};
	OK(wincmd_exec(&b, ID, &req, "C:\\in", &e) == 0);
	is_text(&b, "cd /d \"C:\\100%%\" 2>nul && goto there\r\n"
		    "if exist \"C:\\100%%\" >&2 echo " ID " cwd 20\r\n"
		    "if not exist \"C:\\100%%\" >&2 echo " ID " cwd 2\r\n"
		    "exit /b 1\r\n:there\r\n"
		    "set A=b ^\"c^\"^|%%d^^\r\n<\"C:\\in\" " INTO "whoami\r\n" END);
	req = (struct guest_exec){.argv = broken};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.kind == ERR_UNSUPPORTED);
	req = (struct guest_exec){.argv = simple, .env = option};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.kind == ERR_UNSUPPORTED);
	req = (struct guest_exec){.argv = simple, .cwd = "C:\\\" & del x"};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.sys == EINVAL);
	memset(long_word, 'x', 8999);
	req = (struct guest_exec){.argv = large};
	OK(wincmd_exec(&b, "0", &req, NULL, &e) < 0 && e.kind == ERR_LIMIT && e.sys == E2BIG);
}

static void test_end(void)
{
	static const struct {
		const char *text;
		struct wincmd_end want;
		const char *rest;
	} cases[] = {
		{ID " cwd 2\r\n", {.no_cwd = ENOENT}, ""},
		{ID " cwd 20\r\n", {.no_cwd = ENOTDIR}, ""},
		{ID " cwd 1\r\n", {.no_cwd = ENOENT}, ""},
		{ID " program\r\n", {.no_program = true}, ""},
		{ID " size 12\r\n" ID " size 3\r\nabc", {.has_sizes = true, .sizes = {12, 3}},
			"abc"},
		/* The command's own output is left alone. */
		{ID " size 1\r\n" ID " size 18\r\n" ID " size 9\r\n",
			{.has_sizes = true, .sizes = {1, 18}}, ID " size 9\r\n"},
		{ID " size 12\r\nabc", {.sizes = {12}}, "abc"},
		{"0123456789abcdeX size 12\r\n", {0}, "0123456789abcdeX size 12\r\n"},
		{ID " size 12", {0}, ID " size 12"},
		{"", {0}, ""},
	};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct wincmd_end *want = &cases[i].want;
		auto_buf struct buf b = {0};
		struct wincmd_end end;

		OK(buf_add_str(&b, cases[i].text, &e) == 0);
		wincmd_parse_end(&b, ID, &end);
		OK(end.no_cwd == want->no_cwd && end.no_program == want->no_program);
		OK(end.has_sizes == want->has_sizes);
		OK(end.sizes[0] == want->sizes[0] && end.sizes[1] == want->sizes[1]);
		is_text(&b, cases[i].rest);
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
	test_end();
	test_join();
	test_list();
	return tap_done();
}
