#include "util/json.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"

/* jansson recurses, so deep nesting would overflow the thread's stack; and a value of two or three
 * bytes takes a hundred times as many in memory. */
static int check_shape(struct bytes in, size_t values_max, struct err *e)
{
	bool quoted = false;
	size_t values = 0;
	int depth = 0;

	for (size_t i = 0; i < in.len; i++) {
		uint8_t c = in.p[i];

		if (quoted && c == '\\')
			i++;
		else if (c == '"')
			quoted = !quoted;
		else if (!quoted && (c == '{' || c == '['))
			depth++;
		else if (!quoted && (c == '}' || c == ']'))
			depth--;
		if (!quoted && (c == '{' || c == '[' || c == ','))
			values++;
		if (depth > JSON_DEPTH_MAX)
			return err_set(e, ERR_INVALID, "not valid JSON: nested deeper than %d",
				JSON_DEPTH_MAX);
		if (values > values_max)
			return err_set(
				e, ERR_INVALID, "JSON with more than %zu values", values_max);
	}
	return 0;
}

static int parse_object(
	struct bytes in, size_t values_max, size_t flags, json_t **ret, struct err *e)
{
	json_error_t je;
	json_t *j;

	if (check_shape(in, values_max, e) < 0)
		return -1;
	j = json_loadb((const char *)in.p, in.len, JSON_REJECT_DUPLICATES | flags, &je);
	if (!j)
		return err_set(e, ERR_INVALID, "not valid JSON: line %d, column %d: %s", je.line,
			je.column, je.text);
	if (!json_is_object(j)) {
		json_decref(j);
		return err_set(e, ERR_INVALID, "not a JSON object");
	}
	*ret = j;
	return 0;
}

int json_parse_object(struct bytes in, json_t **ret, struct err *e)
{
	return parse_object(in, JSON_VALUES_MAX, 0, ret, e);
}

int json_parse_small(struct bytes in, json_t **ret, struct err *e)
{
	return parse_object(in, JSON_VALUES_FEW, 0, ret, e);
}

int json_parse_object_nul(struct bytes in, json_t **ret, struct err *e)
{
	return parse_object(in, JSON_VALUES_MAX, JSON_ALLOW_NUL, ret, e);
}

int json_to_str(const json_t *j, char **ret, struct err *e)
{
	char *s = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);

	if (!s)
		return err_oom(e);
	*ret = s;
	return 0;
}

/* The key of the member at `position` of a flat format. Each member has a key and a
 * pointer in ap. */
static const char *member_at(const char *fmt, int position, va_list ap)
{
	const char *key = NULL;

	for (const char *at = fmt; *at && at - fmt < position; at++)
		if (at[0] == 's' && (at[1] == ':' || at[1] == '?')) {
			key = va_arg(ap, const char *);
			(void)va_arg(ap, void *);
		}
	return key;
}

int json_get(json_t *object, const char *what, struct err *e, const char *fmt, ...)
{
	json_error_t je;
	va_list ap;
	const char *member = NULL;
	int rc;

	if (!json_is_object(object))
		return err_set(e, ERR_INVALID, "%s: not an object", what);
	va_start(ap, fmt);
	rc = json_vunpack_ex(object, &je, JSON_STRICT, fmt, ap);
	va_end(ap);
	if (rc == 0)
		return 0;
	if (json_error_code(&je) == json_error_wrong_type) {
		va_start(ap, fmt);
		member = member_at(fmt, je.position, ap);
		va_end(ap);
	}
	if (member)
		return err_set(e, ERR_INVALID, "%s.%s: %s", what, member, je.text);
	if (json_error_code(&je) == json_error_end_of_input_expected)
		return err_set(e, ERR_INVALID, "%s: unknown member: %s", what,
			strrchr(je.text, ' ') ? strrchr(je.text, ' ') + 1 : je.text);
	return err_set(e, ERR_INVALID, "%s: %s", what, je.text);
}

int json_make(json_t **ret, struct err *e, const char *fmt, ...)
{
	json_error_t je;
	va_list ap;
	json_t *j;

	va_start(ap, fmt);
	j = json_vpack_ex(&je, 0, fmt, ap);
	va_end(ap);
	if (!j)
		return err_set(e, ERR_INTERNAL, "cannot make JSON: %s", je.text);
	*ret = j;
	return 0;
}

json_t *json_text(const char *s)
{
	json_t *j = json_string(s);
	size_t n = strlen(s), room = 4 * n + 1;
	auto_free char *safe = NULL;

	if (j)
		return j;
	safe = malloc(room);
	if (!safe)
		return NULL;
	str_escape(s, n, safe, room);
	return json_string(safe);
}
