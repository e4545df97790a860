#include "guestlink/agent/qga-parse.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "wire/base64.h"
#include "util/auto.h"
#include "util/str.h"

enum {
	SENTINEL = 0xff,     /* a byte that JSON never has */
	SYNC_LINE_MAX = 256, /* longer than any answer to guest-sync-delimited */
};

void qga_exit_free(struct qga_exit *x)
{
	buf_free(&x->out);
	buf_free(&x->err);
}

static int fail_garbage(struct err *e, const char *what)
{
	return err_set(e, ERR_UNAVAILABLE, "the guest agent sent %s", what);
}

static int fail_agent(json_t *error, struct err *e)
{
	const char *class = json_string_value(json_object_get(error, "class"));
	json_t *text = json_object_get(error, "desc");
	const char *desc = json_string_value(text);
	bool unknown;
	char safe[512];

	if (!class || !desc)
		return fail_garbage(e, "an error without a description");
	unknown = strcmp(class, "CommandNotFound") == 0 || strstr(desc, "has been disabled");
	str_escape(desc, json_string_length(text), safe, sizeof(safe));
	return err_set(e, unknown ? ERR_UNSUPPORTED : ERR_BACKEND, "guest agent: %s", safe);
}

int qga_parse_reply(struct bytes line, json_t **ret, struct err *e)
{
	auto_json json_t *reply = NULL;
	json_t *value;

	if (json_parse_small(line, &reply, e) < 0)
		return fail_garbage(e, "something that is not JSON");
	value = json_object_get(reply, "return");
	if (value) {
		*ret = json_incref(value);
		return 0;
	}
	value = json_object_get(reply, "error");
	if (!value)
		return fail_garbage(e, "neither a result nor an error");
	return fail_agent(value, e);
}

static bool is_sync(struct bytes line, uint64_t id)
{
	auto_json json_t *value = NULL;
	struct err e;

	return line.len <= SYNC_LINE_MAX && qga_parse_reply(line, &value, &e) == 0 &&
	       json_is_integer(value) && (uint64_t)json_integer_value(value) == id;
}

size_t qga_find_sync(struct bytes in, uint64_t id, size_t *ret_drop)
{
	const uint8_t *end = in.p + in.len, *at = in.p;

	while (at < end && (at = memchr(at, SENTINEL, (size_t)(end - at)))) {
		const uint8_t *line = at + 1, *newline;
		size_t left = (size_t)(end - line);

		/* Search no further than a line may be long: a hostile guest can send a sentinel in
		 * every byte. */
		newline = left ? memchr(line, '\n', left > SYNC_LINE_MAX ? SYNC_LINE_MAX + 1 : left)
			       : NULL;
		if (!newline && left <= SYNC_LINE_MAX) {
			*ret_drop = (size_t)(at - in.p);
			return 0;
		}
		if (newline && is_sync((struct bytes){line, (size_t)(newline - line)}, id))
			return (size_t)(newline + 1 - in.p);
		at++;
	}
	*ret_drop = in.len;
	return 0;
}

static int get_output(json_t *value, const char *name, size_t max, struct buf *ret, struct err *e)
{
	json_t *text = json_object_get(value, name);

	if (!text)
		return 0;
	if (!json_is_string(text) || json_string_length(text) > base64_len(max) ||
		!base64_decode(json_string_value(text), json_string_length(text), ret))
		return fail_garbage(e, "output that is too long or not base64");
	return 0;
}

/* Windows has 32-bit exit codes; larger values are nonsense. */
static int get_int(const json_t *value, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(value, name));

	return v < INT32_MIN || v > UINT32_MAX ? 255 : (int)(int32_t)v;
}

void qga_set_end(struct qga_exit *x, const json_t *value)
{
	int sig = get_int(value, "signal");

	x->signal = sig > 0 && sig < 128 ? sig : 0;
	x->code = x->signal ? 128 + x->signal : sig ? sig : get_int(value, "exitcode");
}

int qga_parse_status(json_t *value, size_t output_max, struct qga_exit *ret, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};

	if (!json_is_object(value) || !json_is_boolean(json_object_get(value, "exited")))
		return fail_garbage(e, "no state of the command");
	if (!json_is_true(json_object_get(value, "exited")))
		return 0;
	if (get_output(value, "out-data", output_max, &x.out, e) < 0 ||
		get_output(value, "err-data", output_max, &x.err, e) < 0)
		return -1;
	x.out_cut = json_is_true(json_object_get(value, "out-truncated"));
	x.err_cut = json_is_true(json_object_get(value, "err-truncated"));
	qga_set_end(&x, value);
	*ret = x;
	x = (struct qga_exit){0};
	return 1;
}

void qga_exit_message(const struct qga_exit *x, char *out, size_t size)
{
	const char *text = (const char *)buf_data(&x->err);
	size_t end = x->err.len, start;

	while (end && text[end - 1] == '\n')
		end--;
	for (start = end; start && text[start - 1] != '\n'; start--)
		;
	if (end == start)
		snprintf(out, size, "exit code %d", x->code);
	else
		str_escape(text + start, end - start, out, size);
}

bool qga_says_no_program(const struct err *e)
{
	return e->kind == ERR_BACKEND && strstr(e->msg, "Failed to execute child process");
}

bool qga_says_too_long(const struct err *e)
{
	return e->kind == ERR_BACKEND && strstr(e->msg, "Argument list too long");
}

int qga_says_errno(const struct err *e)
{
	static const struct {
		const char *text;
		int eno;
	} known[] = {
		{"No such file or directory", ENOENT},
		{"cannot find the",
			ENOENT}, /* "... the path specified", "... the file specified" */
		{"Permission denied", EACCES},
		{"Access is denied", EACCES},
		{"Is a directory", EISDIR},
		{"used by another process", EBUSY},
		{"syntax is incorrect",
			EINVAL}, /* "The filename, directory name, or volume label ..." */
		{"not enough space on the disk", ENOSPC},
	};

	for (size_t i = 0; e->kind == ERR_BACKEND && i < ARRAY_LEN(known); i++)
		if (strstr(e->msg, known[i].text))
			return known[i].eno;
	return 0;
}
