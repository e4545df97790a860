/*
 * A checksum as fast as memory, against bits that rotted and files that were cut. Four lanes, so
 * that the multiplications of one do not wait for those of another.
 */
#include <string.h>

#include "store/templates.h"

static const uint64_t odd = 0x9e3779b97f4a7c15; /* 2^64 over the golden ratio */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * odd;
	return h ^ h >> 29;
}

void sum64_start(struct sum64 *s)
{
	*s = (struct sum64){.lane = {1, 2, 3, 4}};
}

void sum64_add(struct sum64 *s, const void *p, size_t n)
{
	const uint8_t *at = p;
	uint64_t word[4];

	s->total += n;
	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		memcpy(word, at, sizeof(word));
		for (int i = 0; i < 4; i++)
			s->lane[i] = mix(s->lane[i], word[i]);
	}
	if (n) {
		memset(word, 0, sizeof(word));
		memcpy(word, at, n);
		for (int i = 0; i < 4; i++)
			s->lane[i] = mix(s->lane[i], word[i]);
	}
}

uint64_t sum64_end(const struct sum64 *s)
{
	uint64_t h = s->total;

	for (int i = 0; i < 4; i++)
		h = mix(h, s->lane[i]);
	return mix(h, h >> 31);
}
