#include "wire/base64.h"

void base64_encode(struct bytes in, char *out)
{
	base64_put(in.p, in.len, out);
	out[base64_len(in.len)] = 0;
}

bool base64_decode(const char *text, size_t len, struct buf *out)
{
	uint8_t *to = buf_room(out, len / 4 * 3 + 1);
	long n = to ? base64_get(text, len, to) : -1;

	if (n < 0)
		return false;
	buf_grew(out, (size_t)n);
	return true;
}
