#include "compose/text/values.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"
#include "util/str.h"

#define SECONDS_MAX (10.0 * 365 * 86400)

/* Digits with at most one point, as every locale writes them here. */
static size_t number_length(const char *s)
{
	size_t n = strspn(s, "0123456789");

	if (s[n] == '.')
		n += 1 + strspn(s + n + 1, "0123456789");
	return n == 1 && s[0] == '.' ? 0 : n;
}

static double number_value(const char *s, size_t n)
{
	double value = 0, scale = 1;
	bool fraction = false;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '.') {
			fraction = true;
			continue;
		}
		value = value * 10 + (s[i] - '0');
		if (fraction)
			scale *= 10;
	}
	return value / scale;
}

static int wrong(const char *what, const char *text, struct err *e)
{
	char shown[64];

	str_escape(text, strlen(text), shown, sizeof(shown));
	return err_set(e, ERR_INVALID, "\"%s\" is not %s", shown, what);
}

static double unit_seconds(const char *unit, size_t n)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6}, {"ms", 1e-3}, {"s", 1},
		{"m", 60}, {"h", 3600}, {"d", 86400}};

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (strlen(units[i].name) == n && strncmp(unit, units[i].name, n) == 0)
			return units[i].seconds;
	return 0;
}

int value_duration(const json_t *j, double *ret, struct err *e)
{
	static const char what[] = "a duration (such as 30s, 1m30s or 500ms)";
	const char *s = json_string_value(j);
	double sum = 0;

	if (json_is_integer(j) && json_integer_value(j) == 0) {
		*ret = 0;
		return 0;
	}
	if (!s)
		return err_set(e, ERR_INVALID, "is not %s", what);
	if (!*s)
		return wrong(what, s, e);
	for (const char *at = s; *at;) {
		size_t n = number_length(at), unit;
		double seconds;

		if (!n)
			return wrong(what, s, e);
		unit = strcspn(at + n, "0123456789.");
		seconds = unit_seconds(at + n, unit);
		if (seconds == 0 && strcmp(s, "0") != 0)
			return wrong(what, s, e);
		sum += number_value(at, n) * seconds;
		at += n + unit;
	}
	if (!(sum <= SECONDS_MAX))
		return err_set(e, ERR_INVALID, "is too long");
	*ret = sum;
	return 0;
}

int value_bytes(const json_t *j, uint64_t *ret, struct err *e)
{
	static const char letters[] = "kmgtp", what[] = "a size (such as 512m or 2gb)";
	const char *s = json_string_value(j), *unit, *letter;
	double value, factor = 1;
	size_t n;

	if (json_is_number(j) && json_number_value(j) >= 0 && json_number_value(j) < 1e18) {
		*ret = (uint64_t)json_number_value(j);
		return 0;
	}
	if (!s)
		return err_set(e, ERR_INVALID, "is not %s", what);
	n = number_length(s);
	value = number_value(s, n);
	unit = s + n + strspn(s + n, " ");
	letter = *unit ? strchr(letters, tolower((unsigned char)*unit)) : NULL;
	if (letter) {
		factor = pow(1024, (double)(letter - letters + 1));
		unit++;
	}
	if (!n || (*unit && strcasecmp(unit, "b") != 0 && (!letter || strcasecmp(unit, "ib") != 0)))
		return wrong(what, s, e);
	if (!(value * factor < 1e18))
		return err_set(e, ERR_INVALID, "is too large");
	*ret = (uint64_t)(value * factor);
	return 0;
}

int value_mb(const json_t *j, uint64_t *ret, struct err *e)
{
	uint64_t bytes;

	if (value_bytes(j, &bytes, e) < 0)
		return -1;
	*ret = (bytes + (1u << 20) - 1) >> 20;
	return 0;
}

int value_number(const json_t *j, double *ret, struct err *e)
{
	const char *s = json_string_value(j);

	if (json_is_number(j) && fabs(json_number_value(j)) < 1e18) {
		*ret = json_number_value(j);
		return 0;
	}
	if (!s || !*s || number_length(s) != strlen(s) || strlen(s) > 18)
		return err_set(e, ERR_INVALID, "is not a number");
	*ret = number_value(s, strlen(s));
	return 0;
}

int value_flag(const json_t *j, bool *ret, struct err *e)
{
	const char *s = json_string_value(j);
	bool is_true = json_is_true(j) || (s && strcmp(s, "true") == 0);

	if (!is_true && !json_is_false(j) && !(s && strcmp(s, "false") == 0))
		return err_set(e, ERR_INVALID, "is neither true nor false");
	*ret = is_true;
	return 0;
}

int value_text(const json_t *j, char **ret, struct err *e)
{
	auto_free char *text = NULL;

	if (json_is_string(j))
		return str_dup(json_string_value(j), ret, e);
	if (json_is_boolean(j))
		return str_dup(json_is_true(j) ? "true" : "false", ret, e);
	if (!json_is_number(j))
		return err_set(e, ERR_INVALID, "is not a text");
	text = json_dumps(j, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	if (!text)
		return err_oom(e);
	*ret = take_ptr(&text);
	return 0;
}
