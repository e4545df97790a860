/* str.h - small text helpers. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

/* Like asprintf, but with our errors; *ret is untouched on failure. */
PRINTF_LIKE(3, 4) int str_printf(char **ret, struct err *e, const char *fmt, ...);
int str_dup(const char *s, char **ret, struct err *e);
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
static inline bool str_empty(const char *s)
{
	return !s || !*s;
}

/* A whole decimal number in [min, max]; nothing before or after it. */
int str_to_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret, struct err *e);

/* The length of the UTF-8 sequence at p, or 0 if it is not a printable one. */
size_t str_printable(const uint8_t *p, size_t left);
/*
 * Copies at most out_size - 1 bytes of text that may come from a guest, with control bytes (newline
 * too) and invalid UTF-8 written as \xNN, so that a log or terminal shows it and does not obey it.
 */
void str_escape(const char *in, size_t in_len, char *out, size_t out_size);

/* Lower-case hex of n bytes; out has room for 2n + 1. */
void str_hex(const uint8_t *p, size_t n, char *out);
/* Lower-case hex of n random bytes, for names that nobody can guess; n is at most 64, out has room
 * for 2n + 1. */
int str_random_hex(size_t n, char *out, struct err *e);
