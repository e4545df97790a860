#include "util/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct bytes in, char *out)
{
	for (size_t i = 0; i < in.len; i += 3) {
		size_t n = in.len - i < 3 ? in.len - i : 3;
		uint32_t v = (uint32_t)in.p[i] << 16;

		v |= n > 1 ? (uint32_t)in.p[i + 1] << 8 : 0;
		v |= n > 2 ? in.p[i + 2] : 0;
		*out++ = digits[v >> 18];
		*out++ = digits[v >> 12 & 63];
		*out++ = n > 1 ? digits[v >> 6 & 63] : '=';
		*out++ = n > 2 ? digits[v & 63] : '=';
	}
	*out = 0;
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *text, size_t len, struct buf *out)
{
	size_t padding = 0, used = 0;
	uint8_t *to;

	if (len % 4)
		return false;
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	to = buf_room(out, len / 4 * 3 + 1);
	if (!to)
		return false;
	for (size_t i = 0; i < len; i += 4) {
		uint32_t v = 0;

		for (size_t j = 0; j < 4; j++) {
			int d = i + j < len - padding ? value_of(text[i + j]) : 0;

			if (d < 0)
				return false;
			v = v << 6 | (uint32_t)d;
		}
		to[used++] = (uint8_t)(v >> 16);
		to[used++] = (uint8_t)(v >> 8);
		to[used++] = (uint8_t)v;
	}
	buf_grew(out, used - padding);
	return true;
}
