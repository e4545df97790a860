#include "guestlink/agent/script-output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/wire.h"
#include "util/str.h"

enum { NOT_STARTED = 125 };

/* If b ends with "\nTAG ...\n", takes that line off and copies its text without the tag. */
static bool take_tagged(struct buf *b, const char *tag, char *out, size_t size)
{
	const char *text = (const char *)buf_data(b);
	size_t tag_len = strlen(tag), end = b->len, start;

	if (!end || text[end - 1] != '\n')
		return false;
	for (start = end - 1; start && text[start - 1] != '\n'; start--)
		;
	if (!start || end - start < tag_len + 2 || memcmp(text + start, tag, tag_len) != 0 ||
		text[start + tag_len] != ' ')
		return false;
	str_escape(text + start + tag_len + 1, end - 1 - (start + tag_len + 1), out, size);
	b->len = start - 1;
	return true;
}

/* Parses "user 2 no such user: bob": the command did not start. */
static bool parse_not_run(const char *text, struct guest_exit *ret)
{
	char stage[8];
	unsigned eno;
	int at = 0;

	if (sscanf(text, "%7s %9u %n", stage, &eno, &at) < 2 || !at)
		return false;
	if (strcmp(stage, "user") == 0)
		guest_not_run(ret, GUEST_NO_USER, eno, text + at);
	else if (strcmp(stage, "cwd") == 0)
		guest_not_run(ret, GUEST_NO_CWD, eno, text + at);
	else if (strcmp(stage, "exec") == 0)
		guest_not_run(ret, GUEST_NO_EXEC, eno, text + at);
	else
		return false;
	return true;
}

bool agent_parse_end(struct buf *err, const char *tag, struct guest_exit *ret)
{
	struct guest_exit exit = {0};
	unsigned long long out_bytes, err_bytes;
	unsigned code;
	char text[512];

	if (!take_tagged(err, tag, text, sizeof(text)))
		return false;
	if (sscanf(text, "end %9u %18llu %18llu", &code, &out_bytes, &err_bytes) != 3)
		return parse_not_run(text, ret);
	exit.code = (int)(code & 0xff);
	exit.stdout_bytes = out_bytes;
	exit.stderr_bytes = err_bytes;
	if (code == NOT_STARTED && take_tagged(err, tag, text, sizeof(text)))
		return parse_not_run(text, ret);
	*ret = exit;
	return true;
}

static int fail_list(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "the guest's list of files is broken");
}

/* The length of the lines before the empty line, or -1 if there is none. */
static long numbers_end(struct bytes out)
{
	size_t at = 0;

	while (at < out.len && out.p[at] != '\n') {
		const uint8_t *end = memchr(out.p + at, '\n', out.len - at);

		if (!end)
			return -1;
		at = (size_t)(end + 1 - out.p);
	}
	return at < out.len ? (long)at : -1;
}

/* The output is lines of numbers, an empty line, then names and targets in the same order. */
int agent_parse_list(struct bytes out,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	const uint8_t *line = out.p, *end, *names;
	long numbers = numbers_end(out);
	size_t left;

	if (numbers < 0)
		return fail_list(e);
	end = out.p + numbers;
	names = end + 1;
	left = out.len - (size_t)numbers - 1;
	while (line < end) {
		const uint8_t *next = (const uint8_t *)memchr(line, '\n', (size_t)(end - line)) + 1;
		struct guest_entry entry = {0};
		char text[80];

		str_escape((const char *)line, (size_t)(next - 1 - line), text, sizeof(text));
		entry.name = wire_next_string(&names, &left);
		entry.target = entry.name ? wire_next_string(&names, &left) : NULL;
		if (!entry.target || sscanf(text, "%8" SCNx32 " %19" SCNu64 " %19" SCNd64,
					     &entry.mode, &entry.size, &entry.mtime) != 3)
			return fail_list(e);
		if (each(arg, &entry, e) < 0)
			return -1;
		line = next;
	}
	return left ? fail_list(e) : 0;
}
