#include "compose/text/interpolate.h"

#include <ctype.h>
#include <string.h>

#include "spec/spec.h"
#include "util/auto.h"
#include "util/str.h"

/* A short text may name a long variable many times. */
#define MADE_MAX (8u * 1024 * 1024)
/* Defaults of defaults: ${A:-${B:-${C}}} */
#define NESTED_MAX 8

static int expand(struct interpolation *ip, const char *text, size_t len, unsigned depth,
	struct buf *out, struct err *e);

static bool begins_name(char c)
{
	return isalpha((unsigned char)c) || c == '_';
}

static size_t name_length(const char *s, size_t len)
{
	size_t n = 0;

	if (len && begins_name(s[0]))
		while (n < len && (begins_name(s[n]) || isdigit((unsigned char)s[n])))
			n++;
	return n;
}

static const char *value_of(const struct interpolation *ip, const char *name, size_t len)
{
	return json_string_value(json_object_getn(ip->env, name, len));
}

static int put(struct interpolation *ip, struct buf *out, const char *p, size_t n, struct err *e)
{
	ip->made += n;
	if (ip->made > MADE_MAX)
		return err_set(
			e, ERR_LIMIT, "variables stand for more than %u bytes in all", MADE_MAX);
	return buf_add(out, p, n, e);
}

static int put_variable(
	struct interpolation *ip, struct buf *out, const char *name, size_t len, struct err *e)
{
	const char *value = value_of(ip, name, len);

	if (value)
		return put(ip, out, value, strlen(value), e);
	return json_object_setn_new(ip->missing, name, len, json_true()) < 0 ? err_oom(e) : 0;
}

static int misused(const char *text, size_t len, struct err *e)
{
	char shown[64];

	str_escape(text, len, shown, sizeof(shown));
	return err_set(e, ERR_INVALID,
		"cannot understand the variable in \"%s\"; write $$ for a $ itself", shown);
}

/* Braces hold a NAME, or a NAME, an operator and a word. */
static int expand_braces(struct interpolation *ip, const char *in, size_t len, unsigned depth,
	struct buf *out, struct err *e)
{
	size_t name = name_length(in, len), at = name;
	const char *value = value_of(ip, in, name);
	bool colon, present;
	char op;

	if (!name)
		return misused(in, len, e);
	if (at == len)
		return put_variable(ip, out, in, name, e);
	colon = in[at] == ':';
	at += colon;
	op = at < len ? in[at++] : '\0';
	present = value && (!colon || *value);
	switch (op) {
	case '-':
		return present ? put(ip, out, value, strlen(value), e)
			       : expand(ip, in + at, len - at, depth, out, e);
	case '+':
		return present ? expand(ip, in + at, len - at, depth, out, e) : 0;
	case '?':
		if (present)
			return put(ip, out, value, strlen(value), e);
		return err_set(e, ERR_INVALID, "the variable %.*s has no value: %.*s", (int)name,
			in, (int)(len - at), in + at);
	default:
		return misused(in, len, e);
	}
}

/* The length of what stands between "${" and its "}", which other braces may stand in; false: it
 * does not end. */
static bool braces_length(const char *in, size_t len, size_t *ret)
{
	unsigned open = 1;

	for (size_t i = 0; i < len; i++) {
		if (in[i] == '$' && i + 1 < len && in[i + 1] == '{') {
			open++;
			i++;
		} else if (in[i] == '}' && --open == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static int expand(struct interpolation *ip, const char *text, size_t len, unsigned depth,
	struct buf *out, struct err *e)
{
	if (depth == 0)
		return err_set(e, ERR_INVALID, "variables are nested more than %d levels deep",
			NESTED_MAX);
	for (size_t i = 0; i < len;) {
		const char *dollar = memchr(text + i, '$', len - i);
		size_t plain = dollar ? (size_t)(dollar - text) - i : len - i, n;

		if (put(ip, out, text + i, plain, e) < 0)
			return -1;
		i += plain;
		if (i == len)
			break;
		i++; /* the dollar */
		if (i < len && text[i] == '$') {
			if (put(ip, out, "$", 1, e) < 0)
				return -1;
			i++;
		} else if (i < len && text[i] == '{') {
			if (!braces_length(text + i + 1, len - i - 1, &n))
				return misused(text, len, e);
			if (expand_braces(ip, text + i + 1, n, depth - 1, out, e) < 0)
				return -1;
			i += n + 2;
		} else {
			n = name_length(text + i, len - i);
			if (!n)
				return misused(text, len, e);
			if (put_variable(ip, out, text + i, n, e) < 0)
				return -1;
			i += n;
		}
	}
	return 0;
}

int interpolate(struct interpolation *ip, const char *text, char **ret, struct err *e)
{
	auto_buf struct buf out = {0};
	char *made;

	if (expand(ip, text, strlen(text), NESTED_MAX, &out, e) < 0)
		return -1;
	made = buf_take_str(&out);
	if (!made)
		return err_oom(e);
	*ret = made;
	return 0;
}

static int interpolate_text(struct interpolation *ip, json_t *j, const char *at, struct err *e)
{
	auto_free char *made = NULL;

	if (!strchr(json_string_value(j), '$'))
		return 0;
	if (interpolate(ip, json_string_value(j), &made, e) < 0)
		return err_wrap(e, "%s", at);
	return json_string_set(j, made) < 0 ? err_oom(e) : 0;
}

int interpolate_all(struct interpolation *ip, json_t *j, const char *at, struct err *e)
{
	const char *name;
	json_t *child;
	size_t i;

	if (json_is_string(j))
		return interpolate_text(ip, j, at, e);
	json_array_foreach(j, i, child)
		if (interpolate_all(ip, child, SPEC_PLACE("%s[%zu]", at, i), e) < 0)
			return -1;
	json_object_foreach(j, name, child)
		if (interpolate_all(ip, child, SPEC_PLACE("%s%s%s", at, *at ? "." : "", name), e) <
			0)
			return -1;
	return 0;
}
