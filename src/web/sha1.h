/* sha1.h - SHA-1 (FIPS 180-4) of a short text. The handshake of websockets wants it; nothing is
 * kept secret by it. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA1_SIZE = 20, SHA1_TEXT_MAX = 119 };

/* len is at most SHA1_TEXT_MAX. */
void sha1_short(const char *text, size_t len, uint8_t ret[SHA1_SIZE]);
