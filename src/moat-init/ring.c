#include "moat-init/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int ring_open(struct ring *r)
{
	void *p =
		mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*r = (struct ring){.p = p == MAP_FAILED ? NULL : p};
	return r->p ? 0 : errno;
}

void ring_put(struct ring *r, const char *p, size_t n)
{
	while (n) {
		size_t at = r->end % RING_BYTES, piece = RING_BYTES - at;

		if (piece > n)
			piece = n;
		memcpy(r->p + at, p, piece);
		r->end += piece;
		p += piece;
		n -= piece;
	}
}

size_t ring_get(const struct ring *r, uint64_t *at, char *out, size_t size, uint64_t *ret_lost)
{
	size_t n = 0;

	*ret_lost = 0;
	if (*at > r->end)
		*at = r->end;
	if (r->end - *at > RING_BYTES) {
		*ret_lost = r->end - RING_BYTES - *at;
		*at = r->end - RING_BYTES;
	}
	while (n < size && *at < r->end) {
		size_t from = *at % RING_BYTES, piece = RING_BYTES - from;

		if (piece > size - n)
			piece = size - n;
		if (piece > r->end - *at)
			piece = (size_t)(r->end - *at);
		memcpy(out + n, r->p + from, piece);
		n += piece;
		*at += piece;
	}
	return n;
}
