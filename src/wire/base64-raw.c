#include "wire/base64-raw.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(const uint8_t *p, size_t n, char *out)
{
	for (; n; p += n < 3 ? n : 3, n -= n < 3 ? n : 3) {
		uint32_t v = (uint32_t)p[0] << 16;

		v |= n > 1 ? (uint32_t)p[1] << 8 : 0;
		v |= n > 2 ? p[2] : 0;
		*out++ = digits[v >> 18];
		*out++ = digits[v >> 12 & 63];
		*out++ = n > 1 ? digits[v >> 6 & 63] : '=';
		*out++ = n > 2 ? digits[v & 63] : '=';
	}
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

long base64_get(const char *text, size_t len, uint8_t *out)
{
	size_t padding = 0, used = 0;

	if (len % 4)
		return -1;
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < len; i += 4) {
		uint32_t v = 0;

		for (size_t j = 0; j < 4; j++) {
			int d = i + j < len - padding ? value_of(text[i + j]) : 0;

			if (d < 0)
				return -1;
			v = v << 6 | (uint32_t)d;
		}
		out[used++] = (uint8_t)(v >> 16);
		out[used++] = (uint8_t)(v >> 8);
		out[used++] = (uint8_t)v;
	}
	return (long)(used - padding);
}
