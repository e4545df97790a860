/* The healthcheck of a service. */
#include <math.h>
#include <string.h>

#include "compose/keys.h"
#include "compose/service.h"
#include "compose/text/values.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"

/*
 * A VM boots before its service starts, and may be emulated. Failed tries within this time do not
 * count; that delays no check that passes.
 */
#define BOOT_SECONDS 60

/* ["CMD", ...], ["CMD-SHELL", x] or x; *ret_none: there is to be none. */
static int read_test(const json_t *j, json_t **ret, bool *ret_none, struct err *e)
{
	const char *kind = json_string_value(json_array_get(j, 0));
	size_t n = json_array_size(j), i;
	auto_json json_t *argv = NULL;
	json_t *one;

	if (json_is_string(j))
		return json_make(ret, e, "[s, s, O]", "sh", "-c", j);
	if (kind && strcmp(kind, "NONE") == 0) {
		*ret_none = true;
		return 0;
	}
	if (kind && strcmp(kind, "CMD-SHELL") == 0 && n == 2)
		return json_make(ret, e, "[s, s, O]", "sh", "-c", json_array_get(j, 1));
	if (!kind || strcmp(kind, "CMD") != 0 || n < 2)
		return err_set(e, ERR_INVALID,
			"expected [CMD, program, arguments], [CMD-SHELL, command], [NONE] or a "
			"command");
	argv = json_array();
	json_array_foreach((json_t *)j, i, one) {
		auto_free char *text = NULL;

		if (value_text(one, &text, e) < 0)
			return err_wrap(e, "[%zu]", i);
		if (i && json_array_append_new(argv, json_string(text)) < 0)
			return err_oom(e);
	}
	*ret = take_ptr(&argv);
	return 0;
}

static int read_time(const struct service *s, const json_t *check, const char *name,
	double otherwise, double *ret, struct err *e)
{
	const json_t *given = json_object_get(check, name);

	*ret = otherwise;
	if (!given || json_is_null(given))
		return 0;
	if (value_duration(given, ret, e) < 0)
		return err_wrap(e, "services.%s.healthcheck.%s", s->name, name);
	return 0;
}

static double within(double value, double min, double max)
{
	return value < min ? min : value > max ? max : value;
}

static int put_check(struct service *s, const json_t *check, json_t *argv, struct err *e)
{
	double interval, timeout, start, retries = 3;
	const json_t *given = json_object_get(check, "retries");
	json_t *made = NULL;

	if (read_time(s, check, "interval", 30, &interval, e) < 0 ||
		read_time(s, check, "timeout", 30, &timeout, e) < 0 ||
		read_time(s, check, "start_period", 0, &start, e) < 0)
		return -1;
	if (given && !json_is_null(given) && value_number(given, &retries, e) < 0)
		return service_wrap(s, "healthcheck.retries", e);
	if (json_make(&made, e, "{s:O, s:f, s:i, s:i, s:f}", "test", argv, "interval",
		    within(interval > 0 ? interval : 30, 0.1, 3600), "timeout",
		    (int)within(ceil(timeout > 0 ? timeout : 30), 1, 3600), "retries",
		    (int)within(retries > 0 ? retries : 3, 1, 10000), "start_period",
		    within(start + BOOT_SECONDS, 0, 86400)) < 0)
		return -1;
	return json_put(s->vm, "healthcheck", made, e);
}

int service_health(struct service *s, struct err *e)
{
	json_t *check = service_get(s, "healthcheck"), *test;
	auto_json json_t *argv = NULL;
	bool none = false;

	if (!check)
		return 0;
	if (!json_is_object(check))
		return spec_err(
			e, SPEC_PLACE("services.%s.healthcheck", s->name), "expected an object");
	if (keys_check(s->m, KEY_OF_HEALTHCHECK, s->file, check,
		    SPEC_PLACE("services.%s.healthcheck", s->name), e) < 0)
		return -1;
	test = json_object_get(check, "test");
	if (json_object_get(check, "disable") &&
		value_flag(json_object_get(check, "disable"), &none, e) < 0)
		return service_wrap(s, "healthcheck.disable", e);
	if (!none && (!test || json_is_null(test)))
		return service_accept(s, "healthcheck",
			"it has no test, so the image's own healthcheck holds, with its own times",
			e);
	if (!none && read_test(test, &argv, &none, e) < 0)
		return service_wrap(s, "healthcheck.test", e);
	if (none)
		return json_put(s->vm, "healthcheck", json_string("none"), e);
	return put_check(s, check, argv, e);
}
