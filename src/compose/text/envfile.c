#include "compose/text/envfile.h"

#include <ctype.h>
#include <string.h>

#include "compose/text/values.h"
#include "util/auto.h"
#include "util/json.h"

static int set_text(json_t *into, const char *name, size_t len, const char *value, struct err *e)
{
	json_t *text = json_string(value);

	if (!text)
		return err_set(e, ERR_INVALID, "the value of %.*s is not UTF-8", (int)len, name);
	if (json_object_setn_new(into, name, len, text) < 0)
		return err_set(e, ERR_INVALID, "the name of a variable is not UTF-8");
	return 0;
}

/* In double quotes \n and the like are one character each. */
static char unescape(char c)
{
	return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
}

/* The value behind "=": quoted, which may go over several lines, or to the end of the line or a
 * comment. Returns where it ends; NULL: never. */
static const char *read_value(const char *at, const char *end, struct buf *ret)
{
	char quote = at < end && (*at == '\'' || *at == '"') ? *at++ : '\0';
	size_t kept = 0;

	for (; at < end; at++) {
		if (quote && *at == quote)
			return at + 1;
		if (!quote && (*at == '\n' || (*at == '#' && ret->len > kept)))
			break;
		if (quote == '"' && *at == '\\' && at + 1 < end) {
			char c = unescape(*++at);

			buf_put(ret, &c, 1);
			continue;
		}
		buf_put(ret, at, 1);
		if (!quote && !isspace((unsigned char)*at))
			kept = ret->len; /* spaces at the end do not belong to it */
	}
	if (quote)
		return NULL;
	ret->len = kept;
	return at;
}

static const char *end_of_line(const char *at, const char *end)
{
	const char *newline = memchr(at, '\n', (size_t)(end - at));

	return newline ? newline + 1 : end;
}

int envfile_read(struct bytes text, json_t *into, struct err *e)
{
	const char *at = (const char *)text.p, *end = at + text.len;
	unsigned line = 0;

	if (text.len && memchr(text.p, '\0', text.len))
		return err_set(e, ERR_INVALID, "contains a NUL character");
	while (at < end) {
		auto_buf struct buf value = {0};
		auto_free char *copy = NULL;
		const char *name;
		size_t len = 0;

		line++;
		while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
			at++;
		if (end - at > 7 && strncmp(at, "export ", 7) == 0)
			at += 7;
		name = at;
		while (at < end && !strchr("=\n#", *at))
			at++;
		len = (size_t)(at - name);
		while (len && isspace((unsigned char)name[len - 1]))
			len--;
		if (at == end || *at != '=' || !len) {
			if (len)
				return err_set(
					e, ERR_INVALID, "line %u: expected NAME=VALUE", line);
			at = end_of_line(at, end);
			continue;
		}
		for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
			;
		at = read_value(at, end, &value);
		if (!at)
			return err_set(e, ERR_INVALID, "line %u: a quote has no end", line);
		copy = buf_take_str(&value);
		if (!copy)
			return err_oom(e);
		if (set_text(into, name, len, copy, e) < 0)
			return err_wrap(e, "line %u", line);
		at = end_of_line(at, end);
	}
	return 0;
}

static int set_from_env(
	json_t *into, const char *name, size_t len, const json_t *env, struct err *e)
{
	const char *value = json_string_value(json_object_getn(env, name, len));

	return value ? set_text(into, name, len, value, e) : 0;
}

static int read_item(const json_t *item, const json_t *env, json_t *into, struct err *e)
{
	const char *text = json_string_value(item), *equals = text ? strchr(text, '=') : NULL;

	if (!text || !*text || equals == text)
		return err_set(e, ERR_INVALID, "expected NAME=VALUE");
	if (!equals)
		return set_from_env(into, text, strlen(text), env, e);
	return set_text(into, text, (size_t)(equals - text), equals + 1, e);
}

int variables_read(const json_t *j, const json_t *env, json_t *into, struct err *e)
{
	const char *name;
	json_t *value;
	size_t i;

	if (!json_is_object(j) && !json_is_array(j))
		return err_set(e, ERR_INVALID, "expected a list of NAME=VALUE, or an object");
	json_array_foreach((json_t *)j, i, value)
		if (read_item(value, env, into, e) < 0)
			return err_wrap(e, "[%zu]", i);
	json_object_foreach((json_t *)j, name, value) {
		auto_free char *text = NULL;

		if (json_is_null(value)) {
			if (set_from_env(into, name, strlen(name), env, e) < 0)
				return -1;
			continue;
		}
		if (value_text(value, &text, e) < 0 ||
			set_text(into, name, strlen(name), text, e) < 0)
			return err_wrap(e, "%s", name);
	}
	return 0;
}
