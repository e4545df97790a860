/* sha256.h - SHA-256 (FIPS 180-4), a piece at a time. Pure; built into the daemon and the
 * runner. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_HEX = 64 };

struct sha256 {
	uint32_t state[8];
	uint64_t total; /* bytes so far */
	uint8_t block[64];
};

void sha256_start(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
/* Writes hex and a NUL. s cannot be used any more. */
void sha256_end(struct sha256 *s, char ret_hex[SHA256_HEX + 1]);
