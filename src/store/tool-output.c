#include "store/tool-output.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool blank(const char *s)
{
	return s[strspn(s, " \t")] == 0;
}

static void complete(struct tool_output *w, void (*on_line)(void *, const char *), void *arg)
{
	w->line[w->len] = 0;
	w->len = 0;
	if (blank(w->line))
		return;
	memcpy(w->last, w->line, sizeof(w->last));
	if (on_line)
		on_line(arg, w->line);
}

void tool_output_add(struct tool_output *w, const char *p, size_t n,
	void (*on_line)(void *arg, const char *line), void *arg)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' || p[i] == '\r')
			complete(w, on_line, arg);
		else if (w->len < TOOL_OUTPUT_LINE_MAX)
			w->line[w->len++] = p[i] ? p[i] : '?';
	}
}

const char *tool_output_end(
	struct tool_output *w, void (*on_line)(void *arg, const char *line), void *arg)
{
	complete(w, on_line, arg);
	return w->last;
}

/* Reads a decimal number and one space after it; at most 15 digits, so that it cannot overflow. */
static bool take_number(const char **at, uint64_t *ret)
{
	const char *s = *at;
	uint64_t v = 0;
	int n = 0;

	for (; isdigit((unsigned char)*s) && n < 15; s++, n++)
		v = v * 10 + (uint64_t)(*s - '0');
	if (n == 0 || (*s != ' ' && *s != 0))
		return false;
	*ret = v;
	*at = *s ? s + 1 : s;
	return true;
}

bool tool_output_progress(
	const char *line, uint64_t *ret_done, uint64_t *ret_total, const char **ret_text)
{
	static const char word[] = "progress ";
	const char *at = line + sizeof(word) - 1;
	uint64_t done, total;

	if (strncmp(line, word, sizeof(word) - 1) != 0)
		return false;
	if (!take_number(&at, &done) || !take_number(&at, &total))
		return false;
	*ret_done = total && done > total ? total : done;
	*ret_total = total;
	*ret_text = at;
	return true;
}

bool tool_output_percent(const char *line, unsigned *ret_hundredths)
{
	unsigned whole, part;
	int end = 0;

	if (sscanf(line, " (%3u.%2u/100%%)%n", &whole, &part, &end) != 2 || end == 0)
		return false;
	if (whole > 100 || part > 99)
		return false;
	*ret_hundredths = whole * 100 + part;
	return true;
}
