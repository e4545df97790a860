#include "wire/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
	0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152,
	0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
	0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624,
	0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
	0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t v, int bits)
{
	return v >> bits | v << (32 - bits);
}

static uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void expand(const uint8_t *block, uint32_t w[64])
{
	for (int i = 0; i < 16; i++)
		w[i] = get_be32(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
		uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;

		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

/* One round. The eight variables change places from one round to the next; instead of moving them,
 * the caller names them differently: its d and h become its e and a. */
static inline void step(const uint32_t v[6], uint32_t *d, uint32_t *h, uint32_t input)
{
	uint32_t a = v[0], b = v[1], c = v[2], e = v[3], f = v[4], g = v[5];
	uint32_t t =
		*h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + input;

	*d += t;
	*h = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
}

static void mix(uint32_t state[8], const uint8_t *block)
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5],
		 g = state[6], h = state[7], w[64];

	expand(block, w);
	for (int i = 0; i < 64; i++)
		w[i] += round_constants[i];
	for (int i = 0; i < 64; i += 8) {
		step((uint32_t[]){a, b, c, e, f, g}, &d, &h, w[i]);
		step((uint32_t[]){h, a, b, d, e, f}, &c, &g, w[i + 1]);
		step((uint32_t[]){g, h, a, c, d, e}, &b, &f, w[i + 2]);
		step((uint32_t[]){f, g, h, b, c, d}, &a, &e, w[i + 3]);
		step((uint32_t[]){e, f, g, a, b, c}, &h, &d, w[i + 4]);
		step((uint32_t[]){d, e, f, h, a, b}, &g, &c, w[i + 5]);
		step((uint32_t[]){c, d, e, g, h, a}, &f, &b, w[i + 6]);
		step((uint32_t[]){b, c, d, f, g, h}, &e, &a, w[i + 7]);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
	state[5] += f;
	state[6] += g;
	state[7] += h;
}

void sha256_start(struct sha256 *s)
{
	static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	memcpy(s->state, first, sizeof(first));
	s->total = 0;
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
	const uint8_t *at = p;
	size_t used = s->total % sizeof(s->block);

	s->total += n;
	if (used) {
		size_t part = sizeof(s->block) - used < n ? sizeof(s->block) - used : n;

		memcpy(s->block + used, at, part);
		at += part;
		n -= part;
		if (used + part < sizeof(s->block))
			return;
		mix(s->state, s->block);
	}
	for (; n >= sizeof(s->block); at += sizeof(s->block), n -= sizeof(s->block))
		mix(s->state, at);
	if (n)
		memcpy(s->block, at, n);
}

void sha256_end(struct sha256 *s, char ret_hex[SHA256_HEX + 1])
{
	static const char digits[] = "0123456789abcdef";
	static const uint8_t pad[64] = {0x80};
	uint64_t bits = s->total * 8;
	size_t used = s->total % 64;
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, pad, used < 56 ? 56 - used : 120 - used);
	sha256_add(s, length, sizeof(length));
	for (int i = 0; i < SHA256_HEX; i++)
		ret_hex[i] = digits[s->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
	ret_hex[SHA256_HEX] = '\0';
}
