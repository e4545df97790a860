#include "moat-init/record.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "wire/service.h"

enum { ADDRESSES_MAX = 64, RESTARTS_MAX = 1000000 };

bool record_next(struct record *rest, const char **ret_key, const char **ret_value)
{
	size_t key = strnlen(rest->p, rest->len), value;

	if (key == rest->len)
		return false;
	value = strnlen(rest->p + key + 1, rest->len - key - 1);
	if (value == rest->len - key - 1)
		return false;
	*ret_key = rest->p;
	*ret_value = rest->p + key + 1;
	rest->p += key + value + 2;
	rest->len -= key + value + 2;
	return true;
}

bool record_number(const char *text, long min, long max, long *ret)
{
	char *end;

	errno = 0;
	*ret = strtol(text, &end, 10);
	return end != text && !*end && !errno && *ret >= min && *ret <= max;
}

static bool parse_restart(const char *value, enum restart *ret)
{
	static const char *const names[] = {"no", "always", "on-failure"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(value, names[i]) == 0) {
			*ret = (enum restart)i;
			return true;
		}
	return false;
}

static bool parse_limit(const char *value, struct service_limit *ret)
{
	static const struct {
		const char *name;
		int resource;
	} known[] = {{"core", RLIMIT_CORE}, {"cpu", RLIMIT_CPU}, {"data", RLIMIT_DATA},
		{"fsize", RLIMIT_FSIZE}, {"locks", RLIMIT_LOCKS}, {"memlock", RLIMIT_MEMLOCK},
		{"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE}, {"nofile", RLIMIT_NOFILE},
		{"nproc", RLIMIT_NPROC}, {"rss", RLIMIT_RSS}, {"rtprio", RLIMIT_RTPRIO},
		{"sigpending", RLIMIT_SIGPENDING}, {"stack", RLIMIT_STACK}};
	size_t name = strcspn(value, " ");
	char *end;
	long soft, hard;

	if (value[name] != ' ')
		return false;
	soft = strtol(value + name + 1, &end, 10);
	if (end == value + name + 1 || *end != ' ' || !record_number(end + 1, -1, INT64_MAX, &hard))
		return false;
	ret->value.rlim_cur = soft < 0 ? RLIM_INFINITY : (rlim_t)soft;
	ret->value.rlim_max = hard < 0 ? RLIM_INFINITY : (rlim_t)hard;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strlen(known[i].name) == name && memcmp(known[i].name, value, name) == 0) {
			ret->resource = known[i].resource;
			return true;
		}
	return false;
}

static bool set_number(const char *value, long min, long max, unsigned *ret)
{
	long n;

	if (!record_number(value, min, max, &n))
		return false;
	*ret = (unsigned)n;
	return true;
}

/* All but words and variables, which are counted first. Keys of other parts are left to them. */
static bool parse_one(const char *key, const char *value, struct service *s)
{
	unsigned number;

	if (strcmp(key, SERVICE_CWD) == 0) {
		s->cwd = value;
		return value[0] == '/';
	}
	if (strcmp(key, SERVICE_USER) == 0) {
		s->user = value;
		return value[0];
	}
	if (strcmp(key, SERVICE_RESTART) == 0)
		return parse_restart(value, &s->restart);
	if (strcmp(key, SERVICE_RESTART_MAX) == 0)
		return set_number(value, 0, RESTARTS_MAX, &s->restart_max);
	if (strcmp(key, SERVICE_ADDRESSES) == 0)
		return set_number(value, 0, ADDRESSES_MAX, &s->addresses);
	if (strcmp(key, SERVICE_STOP_SIGNAL) == 0) {
		if (!set_number(value, 1, NSIG - 1, &number))
			return false;
		s->stop_signal = (int)number;
	}
	if (strcmp(key, SERVICE_LIMIT) == 0)
		return s->n_limits < SERVICE_LIMITS_MAX &&
		       parse_limit(value, &s->limits[s->n_limits++]);
	return true;
}

static int count(struct record record, size_t *ret_argc, size_t *ret_envc, const char **ret_what)
{
	const char *key, *value;

	while (record_next(&record, &key, &value)) {
		*ret_argc += strcmp(key, SERVICE_ARG) == 0;
		*ret_envc += strcmp(key, SERVICE_ENV) == 0;
	}
	*ret_what = "its end";
	return record.len ? EINVAL : 0;
}

int record_parse(struct record record, struct service *ret, const char **ret_what)
{
	struct service s = {.cwd = "/", .user = "0", .stop_signal = SIGTERM};
	size_t argc = 0, envc = 0;
	const char *key, *value;
	int error = count(record, &argc, &envc, ret_what);

	if (error)
		return error;
	s.argv = calloc(argc + 1, sizeof(*s.argv));
	s.env = calloc(envc + 1, sizeof(*s.env));
	if (!s.argv || !s.env)
		error = ENOMEM;
	argc = envc = 0;
	while (!error && record_next(&record, &key, &value)) {
		if (strcmp(key, SERVICE_ARG) == 0)
			s.argv[argc++] = (char *)(uintptr_t)value;
		else if (strcmp(key, SERVICE_ENV) == 0)
			s.env[envc++] = (char *)(uintptr_t)value;
		else if (!parse_one(key, value, &s))
			error = EINVAL;
		*ret_what = key;
	}
	if (error)
		service_free(&s);
	else
		*ret = s;
	return error;
}

void service_free(struct service *s)
{
	free(s->argv);
	free(s->env);
	*s = (struct service){0};
}
