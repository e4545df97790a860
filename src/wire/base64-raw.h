/* base64-raw.h - base64 between arrays of the caller's, without struct buf. Pure; built into the
 * daemon and the runner. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The length of the text for n bytes, without NUL. */
static inline size_t base64_len(size_t n)
{
	return (n + 2) / 3 * 4;
}

/* Writes base64_len(n) characters, no NUL. */
void base64_put(const uint8_t *p, size_t n, char *out);
/* Returns the number of bytes decoded; -1: not proper base64. out has room for len / 4 * 3. */
long base64_get(const char *text, size_t len, uint8_t *out);
