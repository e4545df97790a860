#include "util/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int str_printf(char **ret, struct err *e, const char *fmt, ...)
{
	char *s;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		return err_oom(e);
	*ret = s;
	return 0;
}

int str_dup(const char *s, char **ret, struct err *e)
{
	char *copy = strdup(s);

	if (!copy)
		return err_oom(e);
	*ret = copy;
	return 0;
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && strcmp(s + n - m, suffix) == 0;
}

int str_to_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9') /* strtoull would take spaces and signs */
		return err_set(e, ERR_INVALID, "\"%s\" is not a number", s);
	errno = 0;
	v = strtoull(s, &end, 10);
	if (*end)
		return err_set(e, ERR_INVALID, "\"%s\" is not a number", s);
	if (errno || v < min || v > max)
		return err_set(e, ERR_INVALID, "%s is not between %llu and %llu", s,
			(unsigned long long)min, (unsigned long long)max);
	*ret = v;
	return 0;
}

/* Unicode's line breaks, and marks that change the direction of the text after them. p is a whole
 * character. */
static bool steers_text(const uint8_t *p)
{
	if (p[0] == 0xd8)
		return p[1] == 0x9c;
	if (p[0] != 0xe2)
		return false;
	return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
	       (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}

size_t str_printable(const uint8_t *p, size_t left)
{
	size_t n = p[0] < 0x80   ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	if (n == 1)
		return p[0] >= 0x20 && p[0] != 0x7f;
	if (n == 0 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if (n == 2 && p[0] == 0xc2 && p[1] < 0xa0) /* C1 controls steer terminals too */
		return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
		(p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	if (steers_text(p))
		return 0;
	return n;
}

void str_escape(const char *in, size_t in_len, char *out, size_t out_size)
{
	const uint8_t *p = (const uint8_t *)in;
	size_t used = 0;

	if (out_size == 0)
		return;
	for (size_t i = 0; i < in_len;) {
		size_t n = str_printable(p + i, in_len - i);

		if (used + (n ? n : 4) >= out_size)
			break;
		if (n) {
			memcpy(out + used, p + i, n);
			used += n;
			i += n;
		} else {
			snprintf(out + used, 5, "\\x%02x", p[i]);
			used += 4;
			i++;
		}
	}
	out[used] = 0;
}

void str_hex(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", p[i]);
	out[2 * n] = 0;
}

int str_random_hex(size_t n, char *out, struct err *e)
{
	uint8_t random[64];

	if (n > sizeof(random) || getrandom(random, n, 0) != (ssize_t)n)
		return err_sys(e, n > sizeof(random) ? EINVAL : errno, "getrandom");
	str_hex(random, n, out);
	return 0;
}
