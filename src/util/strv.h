/* strv.h - a growing NULL-terminated vector of strings, for argument lists. */
#pragma once

#include <stddef.h>

#include "util/err.h"

/* Zero-initialised is empty. v is NULL or ends with NULL. A failure is recorded: call strv_check
 * once at the end. */
struct strv {
	char **v;
	size_t n, cap;
	int failed;
};

void strv_free(struct strv *s);
#define auto_strv __attribute__((cleanup(strv_free)))

void strv_add(struct strv *s, const char *text);
PRINTF_LIKE(2, 3) void strv_addf(struct strv *s, const char *fmt, ...);
/* strv_add_all(s, "-m", "256", NULL) */
void strv_add_all(struct strv *s, ...) __attribute__((sentinel));
int strv_check(const struct strv *s, struct err *e);
