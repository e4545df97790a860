#include "guestlink/agent/wincmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "util/auto.h"
#include "util/str.h"

enum {
	LINE_MAX_BYTES = 8000, /* cmd's limit is 8191 characters */
	JOIN_AT_ONCE = 64,
};

void wincmd_temp_path(const char *id, const char *ending, char path[WINCMD_PATH_MAX])
{
	snprintf(path, WINCMD_PATH_MAX, WINCMD_TEMP "\\moat-%s.%s", id, ending);
}

int wincmd_full_path(const char *cwd, const char *path, char **ret, struct err *e)
{
	bool whole = path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':');

	if (str_printf(ret, e, "%s%s%s", whole || !cwd ? "" : cwd, whole || !cwd ? "" : "\\",
		    path) < 0)
		return -1;
	for (char *p = *ret; *p; p++)
		if (*p == '/')
			*p = '\\';
	return 0;
}

bool wincmd_is_builtin(const char *name)
{
	static const char *const names[] = {"assoc", "break", "call", "cd", "chdir", "cls", "color",
		"copy", "date", "del", "dir", "echo", "endlocal", "erase", "exit", "ftype", "md",
		"mkdir", "mklink", "move", "path", "pause", "popd", "prompt", "pushd", "rd", "rem",
		"ren", "rename", "rmdir", "set", "setlocal", "shift", "start", "time", "title",
		"type", "ver", "verify", "vol"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static int check_text(const char *text, struct err *e)
{
	char safe[100];

	for (const char *p = text; *p; p++)
		if (*p == '\n' || *p == '\r' || *p == 0x1a) {
			str_escape(text, strlen(text), safe, sizeof(safe));
			return err_set(e, ERR_UNSUPPORTED,
				"cmd in the Windows guest cannot be given a line break: \"%s\"",
				safe);
		}
	return 0;
}

/* Adds a file's name in quotes, where only the percent sign has a meaning. */
static int add_path(struct buf *b, const char *path, struct err *e)
{
	if (strchr(path, '"'))
		return guest_fail(e, EINVAL, path, "");
	if (check_text(path, e) < 0 || buf_add_str(b, "\"", e) < 0)
		return -1;
	for (; *path; path++)
		if (buf_add_str(b, *path == '%' ? "%" : "", e) < 0 || buf_add(b, path, 1, e) < 0)
			return -1;
	return buf_add_str(b, "\"", e);
}

/* Adds text outside of quotes, with every character escaped. */
static int add_plain(struct buf *b, const char *text, struct err *e)
{
	if (check_text(text, e) < 0)
		return -1;
	for (; *text; text++) {
		const char *before = *text == '%' ? "%" : strchr("()^\"<>&|", *text) ? "^" : "";

		if (buf_add_str(b, before, e) < 0 || buf_add(b, text, 1, e) < 0)
			return -1;
	}
	return 0;
}

/*
 * Adds an argument. First it is quoted as programs parse their command line: in quotes, with a
 * backslash before each quote in it, and twice as many backslashes before a quote. Then all of that
 * is escaped for cmd.
 */
static int add_word(struct buf *b, const char *word, struct err *e)
{
	bool quotes = !*word || strpbrk(word, " \t\"");
	auto_buf struct buf out = {0};
	auto_free char *text = NULL;
	size_t slashes = 0;

	if (quotes && buf_add_str(&out, "\"", e) < 0)
		return -1;
	for (const char *p = word;; p++) {
		if (*p == '\\') {
			slashes++;
			continue;
		}
		size_t n = *p == '"' ? 2 * slashes + 1 : !*p && quotes ? 2 * slashes : slashes;

		for (; n; n--)
			if (buf_add_str(&out, "\\", e) < 0)
				return -1;
		slashes = 0;
		if (!*p)
			break;
		if (buf_add(&out, p, 1, e) < 0)
			return -1;
	}
	if (quotes && buf_add_str(&out, "\"", e) < 0)
		return -1;
	text = buf_take_str(&out);
	return text ? add_plain(b, text, e) : err_oom(e);
}

/* Adds the program's name, in real quotes: cmd looks for the end of the name before it removes
 * carets. */
static int add_program(struct buf *b, const char *name, struct err *e)
{
	static const char simple[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_-.\\:";
	auto_free char *path = NULL;

	if (wincmd_full_path(NULL, name, &path, e) < 0)
		return -1;
	if (path[strspn(path, simple)] || path[0] == ':')
		return add_path(b, path, e);
	return buf_add_str(b, path, e);
}

static int end_line(struct buf *b, size_t start, struct err *e)
{
	if (b->len - start > LINE_MAX_BYTES)
		return guest_too_large(e,
			"a command of %zu characters is too long for cmd in the Windows guest",
			b->len - start);
	return buf_add_str(b, "\r\n", e);
}

int wincmd_begin(struct buf *b, const char *old_id, bool utf8, struct err *e)
{
	if (buf_add_str(b, "@echo off\r\n", e) < 0 ||
		(utf8 && buf_add_str(b, "chcp 65001 >nul\r\n", e) < 0))
		return -1;
	return old_id ? buf_printf(b, e, "del /q %s\\moat-%s.* 2>nul\r\n", WINCMD_TEMP, old_id) : 0;
}

static int add_around(
	struct buf *b, const char *before, const char *path, const char *after, struct err *e)
{
	if (buf_add_str(b, before, e) < 0 || add_path(b, path, e) < 0)
		return -1;
	return buf_add_str(b, after, e);
}

int wincmd_join(struct buf *b, const char *id, unsigned pieces, const char *path, struct err *e)
{
	if (add_around(b, "if not exist ", path, " type nul >", e) < 0 ||
		add_around(b, "", path, "\r\n", e) < 0)
		return -1;
	for (unsigned i = 0; i < pieces;) {
		if (add_around(b, "copy /b /y ", path, "", e) < 0)
			return -1;
		do {
			if (buf_printf(b, e, "+%s\\moat-%s.%u", WINCMD_TEMP, id, i) < 0)
				return -1;
		} while (++i < pieces && i % JOIN_AT_ONCE);
		if (add_around(b, " ", path, " >nul || exit /b 105\r\n", e) < 0)
			return -1;
	}
	return 0;
}

/* Redirections come first: behind the command, a space before them could become a part of its
 * arguments. */
static int add_command(
	struct buf *b, const char *id, const char *const *argv, const char *input, struct err *e)
{
	size_t start = b->len;

	if (input && add_around(b, "<", input, " ", e) < 0)
		return -1;
	if (buf_printf(b, e, ">" WINCMD_TEMP "\\moat-%s.out 2>" WINCMD_TEMP "\\moat-%s.err ", id,
		    id) < 0 ||
		add_program(b, argv[0], e) < 0)
		return -1;
	for (const char *const *arg = argv + 1; *arg; arg++)
		if (buf_add_str(b, " ", e) < 0 || add_word(b, *arg, e) < 0)
			return -1;
	return end_line(b, start, e);
}

static int add_variables(struct buf *b, const char *const *env, struct err *e)
{
	for (; env && *env; env++) {
		size_t start = b->len;

		if (**env == '/') /* `set` would take it for an option */
			return err_set(e, ERR_UNSUPPORTED,
				"cmd in the Windows guest cannot set a variable whose name begins "
				"with /");
		if (buf_add_str(b, "set ", e) < 0 || add_plain(b, *env, e) < 0 ||
			end_line(b, start, e) < 0)
			return -1;
	}
	return 0;
}

static int add_cwd(struct buf *b, const char *id, const char *cwd, struct err *e)
{
	auto_free char *path = NULL;

	if (wincmd_full_path(NULL, cwd, &path, e) < 0 ||
		add_around(b, "cd /d ", path, " 2>nul && goto there\r\n", e) < 0 ||
		add_around(b, "if exist ", path, "", e) < 0 ||
		buf_printf(b, e, " >&2 echo %s cwd %d\r\n", id, ENOTDIR) < 0 ||
		add_around(b, "if not exist ", path, "", e) < 0 ||
		buf_printf(b, e, " >&2 echo %s cwd %d\r\n", id, ENOENT) < 0)
		return -1;
	return buf_add_str(b, "exit /b 1\r\n:there\r\n", e);
}

/* Adds a check that a program with a path exists: cmd's own messages about that differ a lot. */
static int add_program_check(struct buf *b, const char *id, const char *program, struct err *e)
{
	auto_free char *path = NULL;

	if (wincmd_full_path(NULL, program, &path, e) < 0)
		return -1;
	/* With a percent sign in the path, the loop would put its own variable into it. */
	if (!strchr(path, '\\') || strchr(path, '%'))
		return 0;
	if (buf_add_str(b, "for %%x in (\"\" .com .exe .bat .cmd) do if exist ", e) < 0 ||
		add_path(b, path, e) < 0)
		return -1;
	b->len--; /* drop the closing quote: what follows belongs to the name */
	return buf_printf(
		b, e, "%%%%~x\" goto run\r\n>&2 echo %s program\r\nexit /b 1\r\n:run\r\n", id);
}

static int add_end(struct buf *b, const char *id, struct err *e)
{
	char out[WINCMD_PATH_MAX], err[WINCMD_PATH_MAX];

	wincmd_temp_path(id, "out", out);
	wincmd_temp_path(id, "err", err);
	return buf_printf(b, e,
		"set moat=%%errorlevel%%\r\n"
		"for %%%%f in (%s %s) do >&2 echo %s size %%%%~zf\r\n"
		"for %%%%f in (%s) do if %%%%~zf LEQ %d type %%%%f\r\n"
		"for %%%%f in (%s) do if %%%%~zf LEQ %d >&2 type %%%%f\r\n"
		"exit /b %%moat%%\r\n",
		out, err, id, out, WINCMD_SHOWN_MAX, err, WINCMD_SHOWN_MAX);
}

int wincmd_exec(struct buf *b, const char *id, const struct guest_exec *req, const char *input,
	struct err *e)
{
	if ((req->cwd && add_cwd(b, id, req->cwd, e) < 0) ||
		add_program_check(b, id, req->argv[0], e) < 0 ||
		add_variables(b, req->env, e) < 0 || add_command(b, id, req->argv, input, e) < 0)
		return -1;
	return add_end(b, id, e);
}

/* Takes the first line if it begins with the id; returns the text after the id, or NULL. */
static char *take_line(struct buf *b, const char *id, char *line, size_t size)
{
	const uint8_t *end = b->len ? memchr(buf_data(b), '\n', b->len) : NULL;
	size_t n = end ? (size_t)(end - buf_data(b)) : 0;

	if (!end || n >= size || n < WINCMD_ID_LEN + 1 ||
		memcmp(buf_data(b), id, WINCMD_ID_LEN) != 0 || buf_data(b)[WINCMD_ID_LEN] != ' ')
		return NULL;
	memcpy(line, buf_data(b), n);
	line[n] = 0;
	line[strcspn(line, "\r")] = 0;
	buf_drop(b, n + 1);
	return line + WINCMD_ID_LEN + 1;
}

void wincmd_parse_end(struct buf *err, const char *id, struct wincmd_end *ret)
{
	unsigned long long size;
	unsigned sizes = 0;
	char line[80], *said;
	int code;

	*ret = (struct wincmd_end){0};
	while (sizes < 2 && (said = take_line(err, id, line, sizeof(line)))) {
		if (strcmp(said, "program") == 0)
			ret->no_program = true;
		else if (sscanf(said, "cwd %4d", &code) == 1)
			ret->no_cwd = code == ENOTDIR ? ENOTDIR : ENOENT;
		else if (sscanf(said, "size %19llu", &size) == 1)
			ret->sizes[sizes++] = size;
	}
	ret->has_sizes = sizes == 2;
}

/* "path\" exists only if path is a directory. */
static int if_dir(struct buf *b, const char *path, const char *then, struct err *e)
{
	auto_free char *dir = NULL;

	if (str_printf(&dir, e, "%s\\", path) < 0)
		return -1;
	return add_around(b, "if exist ", dir, then, e);
}

int wincmd_mkdir(struct buf *b, const char *path, struct err *e)
{
	if (if_dir(b, path, " exit /b 0\r\n", e) < 0 ||
		add_around(b, "if exist ", path, " exit /b 117\r\n", e) < 0 ||
		add_around(b, "mkdir ", path, " 2>nul\r\n", e) < 0)
		return -1;
	return if_dir(b, path, " exit /b 0\r\nexit /b 113\r\n", e);
}

int wincmd_why(struct buf *b, const char *path, struct err *e)
{
	if (if_dir(b, path, " exit /b 121\r\n", e) < 0)
		return -1;
	return add_around(b, "if exist ", path, " exit /b 113\r\nexit /b 102\r\n", e);
}

/* Prints lines ATTRIBUTES/SIZE/NAME: no name on Windows contains a slash or a question mark. */
int wincmd_list(struct buf *b, const char *path, struct err *e)
{
	if (add_around(b, "if not exist ", path, " exit /b 102\r\n", e) < 0 ||
		if_dir(b, path, " goto dir\r\n", e) < 0 ||
		add_around(b, "for %%f in (", path, ") do echo %%~af/%%~zf/\r\n", e) < 0)
		return -1;
	return add_around(b, "exit /b 0\r\n:dir\r\ncd /d ", path,
		" 2>nul || exit /b 113\r\n"
		"for /f \"eol=? delims=\" %%f in ('dir /b /a 2^>nul') do echo %%~af/%%~zf/%%f\r\n"
		"exit /b 0\r\n",
		e);
}

static int parse_entry(char *line, struct guest_entry *ret, struct err *e)
{
	char *size = strchr(line, '/'), *name = size ? strchr(size + 1, '/') : NULL;
	unsigned long long n = 0;

	if (!name)
		return err_set(e, ERR_UNAVAILABLE, "the guest's list of files is broken");
	*size++ = 0;
	*name++ = 0;
	*ret = (struct guest_entry){.name = name, .target = ""};
	if (*size && sscanf(size, "%19llu", &n) != 1)
		return err_set(e, ERR_UNAVAILABLE, "the guest's list of files has no size");
	ret->size = n;
	/* Attributes "drahs..l": a link or junction is neither followed nor copied. */
	if (strchr(line, 'l'))
		ret->mode = S_IFCHR;
	else if (line[0] == 'd')
		ret->mode = S_IFDIR | 0755;
	else
		ret->mode = S_IFREG | (line[0] && line[1] == 'r' ? 0444 : 0644);
	return 0;
}

int wincmd_parse_list(struct bytes out,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	const uint8_t *end = out.p + out.len;

	for (const uint8_t *p = out.p; p < end;) {
		const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((newline ? newline : end) - p);
		auto_free char *line = strndup((const char *)p, n);
		struct guest_entry entry;

		if (!line)
			return err_oom(e);
		line[strcspn(line, "\r")] = 0;
		if (*line && (parse_entry(line, &entry, e) < 0 || each(arg, &entry, e) < 0))
			return -1;
		p += n + 1;
	}
	return 0;
}
