#include "cli/server/facts.h"

#include <stdbool.h>
#include <string.h>

#include "util/auto.h"

#define DIGITS  "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

struct field {
	const char *name, *allowed;
	char *to;
	size_t room;
};

/* Takes the value of a line. False: it is longer, or of other characters, than it may be. */
static bool take(const struct field *f, const char *value, size_t n)
{
	if (n == 0 || n >= f->room)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!value[i] || !strchr(f->allowed, value[i]))
			return false;
	memcpy(f->to, value, n);
	f->to[n] = 0;
	return true;
}

int facts_parse(struct bytes text, struct server_facts *ret, struct err *e)
{
	struct server_facts got = {0};
	const struct field fields[] = {
		{"node=", LETTERS DIGITS "-", got.node, sizeof(got.node)},
		{"fingerprint=", DIGITS "ABCDEF:", got.fingerprint, sizeof(got.fingerprint)},
		{"password=", LETTERS DIGITS, got.password, sizeof(got.password)},
	};
	const char *at = (const char *)text.p, *end = at + text.len;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((stop ? stop : end) - at);

		for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
			size_t name = strlen(fields[i].name);

			if (n >= name && memcmp(at, fields[i].name, name) == 0 &&
				!take(&fields[i], at + name, n - name))
				return err_set(e, ERR_INVALID, "%s is not what one is made of",
					fields[i].name);
		}
		at += stop ? n + 1 : n;
	}
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++)
		if (!*fields[i].to)
			return err_set(e, ERR_INVALID, "%s is missing", fields[i].name);
	*ret = got;
	return 0;
}
