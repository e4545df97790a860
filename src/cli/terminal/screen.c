#include "cli/terminal/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"

enum { WIDTH_MIN = 40 };

static unsigned terminal_width(void)
{
	struct winsize ws;
	const char *env = getenv("COLUMNS");
	unsigned width = 80;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		width = ws.ws_col;
	else if (env && atoi(env) > 0)
		width = (unsigned)atoi(env);
	return width < WIDTH_MIN ? WIDTH_MIN : width;
}

void screen_init(struct screen *s)
{
	const char *term = getenv("TERM");
	bool smart = term && strcmp(term, "dumb") != 0;
	bool colours = smart && str_empty(getenv("NO_COLOR"));

	s->out_tty = isatty(STDOUT_FILENO);
	s->err_tty = isatty(STDERR_FILENO);
	s->err_live = s->err_tty && smart;
	s->out_colour = s->out_tty && colours;
	s->err_colour = s->err_tty && colours;
	s->width = s->out_tty ? terminal_width() : 0;
}

const char *colour_on(bool colours, enum colour c)
{
	static const char *const codes[] = {
		"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};

	return colours && (unsigned)c < ARRAY_LEN(codes) ? codes[c] : "";
}

const char *colour_off(bool colours)
{
	return colours ? "\033[0m" : "";
}

static char *safe_part(const char *s, size_t len)
{
	size_t room = 4 * len + 1;
	char *out = malloc(room);

	if (out)
		str_escape(s, len, out, room);
	return out;
}

char *text_safe(const char *s)
{
	return safe_part(s ? s : "", s ? strlen(s) : 0);
}

void print_safe_lines(FILE *f, const char *s)
{
	while (*s) {
		size_t len = strcspn(s, "\n");
		auto_free char *line = safe_part(s, len);

		fputs(line ? line : "", f);
		fputc('\n', f);
		s += len;
		while (*s == '\n')
			s++;
		if (*s)
			fputs("  ", f);
	}
}

void text_size(double bytes, char out[static 24])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	unsigned u = 0;

	while (bytes >= 1024 && u + 1 < ARRAY_LEN(units)) {
		bytes /= 1024;
		u++;
	}
	snprintf(out, 24, u && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[u]);
}

void text_age(double seconds, char out[static 24])
{
	double s = seconds < 0 ? 0 : seconds;

	if (s < 120)
		snprintf(out, 24, "%.0fs", s);
	else if (s < 2 * 3600)
		snprintf(out, 24, "%.0fm", s / 60);
	else if (s < 48 * 3600)
		snprintf(out, 24, "%.0fh", s / 3600);
	else
		snprintf(out, 24, "%.0fd", s / 86400);
}

/* The number of bytes at the end of p that begin a character and do not complete it. */
static size_t cut_character(const char *p, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		uint8_t c = (uint8_t)p[len - back];
		size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) == 0x80)
			continue;
		return need > back ? back : 0;
	}
	return 0;
}

static int add_safe(struct buf *out, const char *p, size_t len, struct err *e)
{
	while (len) {
		size_t plain = 0;

		while (plain < len && p[plain] != '\n' && p[plain] != '\t' &&
			!(p[plain] == '\r' && plain + 1 < len && p[plain + 1] == '\n'))
			plain++;
		if (plain) {
			auto_free char *safe = safe_part(p, plain);

			if (!safe)
				return err_oom(e);
			if (buf_add_str(out, safe, e) < 0)
				return -1;
		}
		if (plain < len && buf_add(out, p + plain, 1, e) < 0)
			return -1;
		plain += plain < len;
		p += plain;
		len -= plain;
	}
	return 0;
}

int tty_filter_add(struct tty_filter *f, struct bytes in, struct buf *out, struct err *e)
{
	auto_buf struct buf all = {0};
	size_t keep;

	if (in.len + f->tail_len == 0)
		return 0;
	if ((f->tail_len && buf_add(&all, f->tail, f->tail_len, e) < 0) ||
		buf_add(&all, in.p, in.len, e) < 0)
		return -1;
	/* At the end of the stream nothing can complete a cut character any more. */
	keep = in.len ? cut_character((char *)buf_data(&all), all.len) : 0;
	if (add_safe(out, (char *)buf_data(&all), all.len - keep, e) < 0)
		return -1;
	memcpy(f->tail, buf_data(&all) + all.len - keep, keep);
	f->tail_len = keep;
	return 0;
}

int write_out(int fd, struct bytes data, struct err *e)
{
	while (data.len) {
		ssize_t done = write(fd, data.p, data.len);

		/* A process that shares our stdout may have made it non-blocking. */
		if (done < 0 && errno == EAGAIN) {
			struct pollfd p = {.fd = fd, .events = POLLOUT};

			poll(&p, 1, -1);
			continue;
		}
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return err_sys(e, errno, "cannot write the output");
		data.p += done;
		data.len -= (size_t)done;
	}
	return 0;
}

/* Prints a character of up to three bytes of UTF-8 as JSON's \uNNNN; returns its length. */
static size_t print_escaped(const uint8_t *p)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : 3;
	unsigned code = n == 1 ? p[0] : p[0] & (n == 2 ? 0x1f : 0x0f);

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (p[i] & 0x3f);
	printf("\\u%04x", code);
	return n;
}

/* Prints indented JSON, escaping characters that steer a terminal: strings may come from a
 * guest. */
static int print_for_terminal(const json_t *j, struct err *e)
{
	auto_free char *text = json_dumps(j, JSON_ENCODE_ANY | JSON_INDENT(2));
	const uint8_t *p = (uint8_t *)text, *end;

	if (!text)
		return err_set(e, ERR_INTERNAL, "cannot write the output");
	for (end = p + strlen(text); p < end;) {
		size_t n = *p == '\n' ? 1 : str_printable(p, (size_t)(end - p));

		p += n ? fwrite(p, 1, n, stdout) : print_escaped(p);
		if (ferror(stdout))
			break;
	}
	return 0;
}

int print_json(const struct screen *s, const json_t *j, struct err *e)
{
	if (s->out_tty) {
		if (print_for_terminal(j, e) < 0)
			return -1;
	} else if (json_dumpf(j, stdout, JSON_ENCODE_ANY | JSON_COMPACT) < 0) {
		return err_set(e, ERR_INTERNAL, "cannot write the output");
	}
	putchar('\n');
	return check_stdout(e);
}

int check_stdout(struct err *e)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return err_sys(e, errno ? errno : EIO, "cannot write the output");
	return 0;
}
