#include "web/sha1.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 };

static uint32_t turn_left(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
	static const uint32_t constants[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
	uint32_t f = round < 20 || (round >= 40 && round < 60) ? (b & c) | (~b & d) : b ^ c ^ d;

	if (round >= 40 && round < 60)
		f = (b & c) | (b & d) | (c & d);
	return f + constants[round / 20];
}

static void add_block(uint32_t h[5], const uint8_t *p)
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (unsigned i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = turn_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t next = turn_left(a, 5) + mix(i, b, c, d) + e + w[i];

		e = d;
		d = c;
		c = turn_left(b, 30);
		b = a;
		a = next;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void sha1_short(const char *text, size_t len, uint8_t ret[SHA1_SIZE])
{
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint8_t padded[2 * BLOCK] = {0};
	size_t size = len + 9 <= BLOCK ? BLOCK : 2 * BLOCK;

	if (len > SHA1_TEXT_MAX)
		abort(); /* the caller's mistake */
	memcpy(padded, text, len);
	padded[len] = 0x80;
	padded[size - 2] = (uint8_t)(len * 8 >> 8);
	padded[size - 1] = (uint8_t)(len * 8);
	for (size_t at = 0; at < size; at += BLOCK)
		add_block(h, padded + at);
	for (unsigned i = 0; i < SHA1_SIZE; i++)
		ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}
