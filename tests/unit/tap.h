/* tap.h - just enough Test Anything Protocol. main() ends with `return tap_done();`.
 * Single-threaded. */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static int tap_ok(int good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout); /* a child that a test forks must not print it again */
	tap_failed += !good;
	return good;
}

__attribute__((unused)) static int tap_str(const char *got, const char *want, const char *what)
{
	int good = got && want ? strcmp(got, want) == 0 : got == want;

	tap_ok(good, "%s", what);
	if (!good)
		printf("#  got: %s\n# want: %s\n", got ? got : "(null)", want ? want : "(null)");
	return good;
}

/* For main(): true, and the test is skipped, if we are not root. tests/run names those. */
__attribute__((unused)) static int tap_needs_root(const char *why)
{
	if (geteuid() == 0)
		return 0;
	printf("1..0 # SKIP needs root: %s\n", why);
	return 1;
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define OK(cond)          tap_ok(!!(cond), "%s", #cond)
#define STR_IS(got, want) tap_str(got, want, #got)
