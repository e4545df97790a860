/* Translates what a service runs: program, variables, user, limits, names. */
#include <string.h>

#include "compose/service.h"
#include "compose/text/values.h"
#include "compose/text/words.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

/* A list of texts, or one text to be split. */
static int read_argv(const json_t *j, json_t **ret, struct err *e)
{
	auto_json json_t *list = NULL;
	json_t *one;
	size_t i;

	if (json_is_string(j))
		return words_split(json_string_value(j), ret, e);
	if (!json_is_array(j))
		return err_set(e, ERR_INVALID, "expected a text or a list of texts");
	list = json_array();
	if (!list)
		return err_oom(e);
	json_array_foreach((json_t *)j, i, one) {
		auto_free char *text = NULL;

		if (value_text(one, &text, e) < 0)
			return err_wrap(e, "[%zu]", i);
		if (json_array_append_new(list, json_string(text)) < 0)
			return err_oom(e);
	}
	*ret = take_ptr(&list);
	return 0;
}

static int put_argv(struct service *s, const char *name, struct err *e)
{
	const json_t *given = service_get(s, name);
	json_t *argv = NULL;

	if (!given)
		return 0;
	if (read_argv(given, &argv, e) < 0)
		return service_wrap(s, name, e);
	/* [""] as an entrypoint is how Docker's own command line says: none. */
	if (json_array_size(argv) == 1 && !*json_string_value(json_array_get(argv, 0)))
		json_array_clear(argv);
	return json_put(s->runs, name, argv, e);
}

static int put_text(struct service *s, const char *name, struct err *e)
{
	const json_t *given = service_get(s, name);
	auto_free char *text = NULL;

	if (!given)
		return 0;
	if (value_text(given, &text, e) < 0)
		return service_wrap(s, name, e);
	return *text ? json_put(s->runs, name, json_string(text), e) : 0;
}

static int put_restart(struct service *s, struct err *e)
{
	const json_t *given = service_get(s, "restart");
	const char *text = json_is_false(given) ? "no" : json_string_value(given), *colon;
	uint64_t most = 0;

	if (!given)
		return 0;
	colon = text ? strchr(text, ':') : NULL;
	if (!text || (colon && (!str_starts(text, "on-failure:") ||
				       str_to_u64(colon + 1, 0, 10000, &most, e) < 0)))
		return spec_err(e, SPEC_PLACE("services.%s.restart", s->name),
			"is not one of no, always, on-failure, on-failure:TIMES, unless-stopped");
	if (most && json_put(s->runs, "restart_max", json_integer((json_int_t)most), e) < 0)
		return -1;
	return json_put(s->runs, "restart",
		json_stringn(text, colon ? (size_t)(colon - text) : strlen(text)), e);
}

static int add_host(struct service *s, const char *item, json_t *hosts, struct err *e)
{
	size_t name = strcspn(item, ":=");
	const char *address = item + name + (item[name] != '\0');

	if (!name || !*address)
		return spec_err(e, SPEC_PLACE("services.%s.extra_hosts", s->name),
			"expected NAME:ADDRESS, got \"%.60s\"", item);
	if (strcmp(address, "host-gateway") == 0)
		address = "gateway";
	return json_object_setn_new(hosts, item, name, json_string(address)) < 0 ? err_oom(e) : 0;
}

static int put_extra_hosts(struct service *s, struct err *e)
{
	auto_json json_t *hosts = json_object();
	json_t *given = service_get(s, "extra_hosts"), *one;
	const char *name;
	size_t i;

	if (!hosts)
		return err_oom(e);
	if (given && !json_is_object(given) && !json_is_array(given))
		return spec_err(e, SPEC_PLACE("services.%s.extra_hosts", s->name),
			"expected a list or an object");
	json_array_foreach(given, i, one)
		if (add_host(s, json_is_string(one) ? json_string_value(one) : "", hosts, e) < 0)
			return -1;
	json_object_foreach(given, name, one) {
		const char *address =
			json_string_value(json_is_array(one) ? json_array_get(one, 0) : one);
		auto_free char *item = NULL;

		if (str_printf(&item, e, "%s:%s", name, address ? address : "") < 0 ||
			add_host(s, item, hosts, e) < 0)
			return -1;
	}
	return json_put(s->runs, "extra_hosts", take_ptr(&hosts), e);
}

static int put_sysctls(struct service *s, struct err *e)
{
	auto_json json_t *all = json_object();
	json_t *given = service_get(s, "sysctls"), *one;
	const char *name;
	size_t i;

	if (!all)
		return err_oom(e);
	json_array_foreach(given, i, one) {
		const char *text = json_string_value(one),
			   *equals = text ? strchr(text, '=') : NULL;

		if (!equals)
			return spec_err(e, SPEC_PLACE("services.%s.sysctls[%zu]", s->name, i),
				"expected NAME=VALUE");
		if (json_object_setn_new(
			    all, text, (size_t)(equals - text), json_string(equals + 1)) < 0)
			return err_oom(e);
	}
	json_object_foreach(given, name, one) {
		auto_free char *text = NULL;

		if (value_text(one, &text, e) < 0)
			return service_wrap(s, "sysctls", e);
		if (json_put(all, name, json_string(text), e) < 0)
			return -1;
	}
	return json_put(s->runs, "sysctls", take_ptr(&all), e);
}

static int put_ulimits(struct service *s, struct err *e)
{
	auto_json json_t *all = json_object();
	json_t *given = service_get(s, "ulimits"), *one;
	const char *name;

	if (!all)
		return err_oom(e);
	json_object_foreach(given, name, one) {
		auto_free char *soft = NULL, *hard = NULL, *text = NULL;
		bool both = json_is_object(one);

		if (value_text(both ? json_object_get(one, "soft") : one, &soft, e) < 0 ||
			value_text(both ? json_object_get(one, "hard") : one, &hard, e) < 0)
			return err_wrap(e, "services.%s.ulimits.%s", s->name, name);
		if ((both ? str_printf(&text, e, "%s:%s", soft, hard) : str_dup(soft, &text, e)) <
				0 ||
			json_put(all, name, json_string(text), e) < 0)
			return -1;
	}
	return json_put(s->runs, "ulimits", take_ptr(&all), e);
}

static int put_shm(struct service *s, struct err *e)
{
	const json_t *given = service_get(s, "shm_size");
	uint64_t mb;

	if (!given)
		return 0;
	if (value_mb(given, &mb, e) < 0)
		return service_wrap(s, "shm_size", e);
	return mb ? json_put(s->runs, "shm_size_mb", json_integer((json_int_t)mb), e) : 0;
}

int service_runs(struct service *s, struct err *e)
{
	static const char *const texts[] = {"working_dir", "user", "hostname"};
	json_t *environment = service_get(s, "environment");

	if (put_argv(s, "entrypoint", e) < 0 || put_argv(s, "command", e) < 0)
		return -1;
	if (environment && json_object_set(s->runs, "environment", environment) < 0)
		return err_oom(e);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (put_text(s, texts[i], e) < 0)
			return -1;
	return put_restart(s, e) < 0 || put_extra_hosts(s, e) < 0 || put_sysctls(s, e) < 0 ||
			       put_ulimits(s, e) < 0 || put_shm(s, e) < 0
		       ? -1
		       : 0;
}
