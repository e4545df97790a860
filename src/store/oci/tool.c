#include "store/oci/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/oci/describe.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/proc.h"

enum { LAST_MAX = 8192, SHOWN_MAX = 600 };
#define TELL_EACH 0.3

extern char **environ;

/* ---- what the programs are told ---- */

/* Whether a text can stand between quotes in the file. */
static bool is_plain(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == '"' || *s == '\\' || *s == 0x7f)
			return false;
	return true;
}

static int add_mirror(const char *mirror, struct buf *text, struct err *e)
{
	bool plain_http = str_starts(mirror, "http://");
	const char *at = strstr(mirror, "://");
	size_t n;

	at = at ? at + 3 : mirror;
	n = strlen(at);
	while (n && at[n - 1] == '/')
		n--;
	if (!is_plain(at))
		return err_set(e, ERR_INVALID, "image_mirror is no URL");
	buf_putf(text, "[[registry]]\nprefix = \"docker.io\"\nlocation = \"%.*s\"\n", (int)n, at);
	if (plain_http)
		buf_puts(text, "insecure = true\n");
	return 0;
}

int oci_tool_prepare(const struct draft *d, char *const *local, struct err *e)
{
	auto_buf struct buf text = {0};
	auto_free char *path = NULL;

	buf_puts(&text, "unqualified-search-registries = [\"docker.io\"]\n"
			"short-name-mode = \"disabled\"\n");
	if (*d->st->mirror && add_mirror(d->st->mirror, &text, e) < 0)
		return -1;
	for (unsigned i = 0; local && local[i]; i++)
		if (is_plain(local[i]))
			buf_putf(&text, "[[registry]]\nlocation = \"%s\"\ninsecure = true\n",
				local[i]);
	if (buf_check(&text, e) < 0 || str_printf(&path, e, "%s/registries.conf", d->work) < 0)
		return -1;
	return file_write_atomic(path, buf_data(&text), text.len, 0644, e);
}

static bool is_ours(const char *var)
{
	return str_starts(var, "PATH=") || str_starts(var, "TMPDIR=");
}

int oci_tool_env(const struct draft *d, struct strv *ret, struct err *e)
{
	const char *path = getenv("PATH");

	for (char **var = environ; *var; var++)
		if (!is_ours(*var))
			strv_add(ret, *var);
	strv_addf(ret, "PATH=%s:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin");
	strv_addf(ret, "TMPDIR=%s", d->work);
	return strv_check(ret, e);
}

void oci_skopeo(const struct draft *d, struct strv *ret, const char *verb)
{
	/* No file may become larger than the disk that all of them go into. */
	strv_addf(ret, "prlimit");
	strv_addf(ret, "--fsize=%llu", (unsigned long long)d->st->container_disk);
	strv_add_all(ret, "skopeo", "--override-os", "linux", "--override-arch", "amd64",
		"--registries-conf", NULL);
	strv_addf(ret, "%s/registries.conf", d->work);
	strv_add(ret, verb);
}

/* ---- what they say ---- */

/* The text of msg="..." in a line of their log, or the line itself. */
static void take_message(const char *line, char *out, size_t size)
{
	const char *at = strstr(line, "msg=\"");
	size_t n = 0;

	if (!at) {
		snprintf(out, size, "%s", str_starts(line, "Error: ") ? line + 7 : line);
		return;
	}
	for (at += 5; *at && *at != '"' && n + 1 < size; at++) {
		if (*at == '\\' && at[1])
			at++;
		out[n++] = *at;
	}
	out[n] = 0;
}

int oci_tool_fail(const char *program, const char *last, struct err *e)
{
	static const struct {
		const char *said;
		enum err_kind kind;
		const char *help;
	} known[] = {
		{"manifest unknown", ERR_NOT_FOUND, "the registry has no such image"},
		{"name unknown", ERR_NOT_FOUND, "the registry has no such image"},
		{"was deleted or has expired", ERR_NOT_FOUND, "the registry has no such image"},
		{"multiple images", ERR_INVALID, "it holds several images: save one alone"},
		{"more than one image", ERR_INVALID, "it holds several images: save one alone"},
		{"unauthorized", ERR_PERMISSION, NULL},
		{"authentication required", ERR_PERMISSION, NULL},
		{"access to the resource is denied", ERR_PERMISSION, NULL},
		{"denied:", ERR_PERMISSION, NULL},
		{"no space left on device", ERR_INTERNAL, NULL},
		{"connection refused", ERR_UNAVAILABLE, NULL},
		{"no such host", ERR_UNAVAILABLE, NULL},
		{"i/o timeout", ERR_UNAVAILABLE, NULL},
		{"TLS handshake", ERR_UNAVAILABLE, NULL},
		{"toomanyrequests", ERR_UNAVAILABLE, NULL},
	};
	char message[LAST_MAX], shown[SHOWN_MAX];

	take_message(last, message, sizeof(message));
	str_escape(message, strlen(message), shown, sizeof(shown));
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (!strstr(message, known[i].said))
			continue;
		if (known[i].kind == ERR_PERMISSION)
			return err_set(e, ERR_PERMISSION,
				"the registry wants another login, or has no such image; `skopeo "
				"login` makes one: %s",
				shown);
		if (known[i].help)
			return err_set(e, known[i].kind, "%s: %s", known[i].help, shown);
		return err_set(e, known[i].kind, "%s", shown);
	}
	return err_set(e, ERR_BACKEND, "%s: %s", program, *shown ? shown : "failed without a word");
}

static const char *name_of(const struct strv *argv)
{
	return argv->n > 2 && strcmp(argv->v[0], "prlimit") == 0 ? argv->v[2] : argv->v[0];
}

/* A program that is not there: the guard and prlimit say so in their own words. */
static int fail_with(const struct strv *argv, int code, const char *last, struct err *e)
{
	enum { NO_PROGRAM = 127 };

	if (code == NO_PROGRAM)
		return err_set(e, ERR_UNSUPPORTED,
			"%s is not installed; container images need it: apt install %s",
			name_of(argv), name_of(argv));
	return oci_tool_fail(name_of(argv), last, e);
}

/* The last line of a text, without its end. */
static const char *last_line(char *text)
{
	size_t n = strlen(text);
	char *at;

	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		text[--n] = 0;
	at = strrchr(text, '\n');
	return at ? at + 1 : text;
}

int oci_tool_ask(const struct op *op, const struct draft *d, const struct strv *argv,
	struct buf *out, struct err *e)
{
	auto_proc_result struct proc_result res = {0};
	auto_strv struct strv env = {0};
	auto_free char *said = NULL;
	struct proc_req req = {.argv = (const char *const *)argv->v,
		.guard = d->st->helper_path,
		.out_max = OCI_TEXT_MAX + 1};

	if (strv_check(argv, e) < 0 || oci_tool_env(d, &env, e) < 0)
		return -1;
	req.env = (const char *const *)env.v;
	if (proc_run(op, &req, &res, e) < 0)
		return -1;
	if (res.exit_code == 0)
		return buf_add(out, buf_data(&res.out), res.out.len, e);
	said = buf_take_str(&res.err);
	return said ? fail_with(argv, res.exit_code, last_line(said), e) : err_oom(e);
}

static void tell(const struct op *op, const struct oci_tool_watch *w)
{
	uint64_t done = 0;

	for (unsigned i = 0; i < ARRAY_LEN(w->dirs); i++)
		done += w->dirs[i] ? dir_bytes(w->dirs[i]) : 0;
	if (w->total)
		op_progress(op, done < w->total ? done : w->total, w->total, "%s", w->text);
	else
		op_progress(op, done, 0, "%s", w->text);
}

/* Waits for the end of a program that writes files. */
static int wait_and_tell(const struct op *op, struct proc *proc, const struct oci_tool_watch *watch,
	int *ret_code, struct err *e)
{
	for (;;) {
		struct op brief = op_within(op, TELL_EACH);

		tell(op, watch);
		if (op_wait_fd(&brief, proc->pidfd, POLLIN, e) == 0)
			return proc_wait(op, proc, ret_code, e);
		if (e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
			return -1;
	}
}

int oci_tool_watch(const struct op *op, const struct draft *d, const struct strv *argv,
	const struct oci_tool_watch *watch, struct err *e)
{
	auto_proc struct proc proc = PROC_NONE;
	auto_strv struct strv env = {0};
	auto_free char *log = NULL, *said = NULL;
	auto_fd int fd = -1;
	struct proc_req req = {.argv = (const char *const *)argv->v, .guard = d->st->helper_path};
	int code;

	if (strv_check(argv, e) < 0 || oci_tool_env(d, &env, e) < 0 ||
		str_printf(&log, e, "%s/tool.log", d->work) < 0)
		return -1;
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "%s", log);
	req.env = (const char *const *)env.v;
	req.err_fd = fd;
	if (proc_start(&req, &proc, e) < 0 || wait_and_tell(op, &proc, watch, &code, e) < 0)
		return -1;
	if (code == 0)
		return 0;
	said = file_tail(log, LAST_MAX);
	return said ? fail_with(argv, code, last_line(said), e) : err_oom(e);
}
