/* record.h - what the host tells of a service (wire/service.h), parsed. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

enum restart { RESTART_NO, RESTART_ALWAYS, RESTART_ON_FAILURE };
enum { SERVICE_LIMITS_MAX = 16 };

struct service_limit {
	int resource;
	struct rlimit value;
};

/* Strings point into the record. */
struct service {
	char **argv, **env; /* NULL at the end; belong to this. argv may be empty */
	const char *cwd, *user;
	enum restart restart;
	unsigned restart_max, addresses;
	int stop_signal;
	struct service_limit limits[SERVICE_LIMITS_MAX];
	size_t n_limits;
};

/* The part of a record that was not read yet. */
struct record {
	const char *p;
	size_t len;
};
/* The next pair. False: the record ends here, or in the middle of a pair; len tells. */
bool record_next(struct record *rest, const char **ret_key, const char **ret_value);
/* A number from min to max. */
bool record_number(const char *text, long min, long max, long *ret);

/* 0, ENOMEM, or EINVAL with *ret_what: the key that makes no sense. */
int record_parse(struct record record, struct service *ret, const char **ret_what);
void service_free(struct service *s);
