/* Frames of websockets, as browsers send them and as they should not. */
#include "web/websocket.h"

#include <string.h>

#include "tap.h"

/* A masked frame, as a browser makes it. */
static size_t masked(uint8_t *out, unsigned first, const char *text)
{
	static const uint8_t mask[4] = {1, 2, 3, 4};
	size_t n = strlen(text);

	out[0] = (uint8_t)first;
	out[1] = (uint8_t)(0x80 | n);
	memcpy(out + 2, mask, 4);
	for (size_t i = 0; i < n; i++)
		out[6 + i] = (uint8_t)text[i] ^ mask[i % 4];
	return n + 6;
}

static long decode(unsigned first, const char *text, size_t max, struct ws_frame *ret)
{
	static uint8_t frame[256];

	return ws_decode(frame, masked(frame, first, text), max, ret);
}

static void test_decoding(void)
{
	uint8_t frame[64];
	struct ws_frame f;
	size_t size = masked(frame, 0x81, "hello");

	for (size_t n = 0; n < size; n++)
		OK(ws_decode(frame, n, 100, &f) == 0);
	OK(ws_decode(frame, size, 100, &f) == (long)size);
	OK(f.last && f.opcode == WS_TEXT && f.payload.len == 5);
	OK(memcmp(f.payload.p, "hello", 5) == 0);
	OK(decode(0x02, "a", 100, &f) == 7 && !f.last && f.opcode == WS_BINARY);
	OK(decode(0x80, "", 100, &f) == 6 && f.last && f.opcode == WS_MORE);
}

static void test_rules(void)
{
	uint8_t plain[] = {0x81, 1, 'a'}, long_ping[] = {0x89, 0xfe, 0, 126};
	uint8_t huge[] = {0x82, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0};
	struct ws_frame f;

	tap_ok(ws_decode(plain, sizeof(plain), 100, &f) == -1, "not masked");
	tap_ok(ws_decode(long_ping, sizeof(long_ping), 1000, &f) == -1, "a long ping");
	tap_ok(ws_decode(huge, sizeof(huge), 1000, &f) == -1, "more than there may be");
	OK(decode(0xc1, "a", 100, &f) == -1);
	OK(decode(0x83, "a", 100, &f) == -1);
	OK(decode(0x8b, "a", 100, &f) == -1);
	OK(decode(0x09, "a", 100, &f) == -1);
	OK(decode(0x81, "abc", 2, &f) == -1);
	OK(decode(0x81, "abc", 3, &f) == 9);
}

static void test_ours(void)
{
	auto_buf struct buf out = {0};
	static const size_t sizes[] = {0, 125, 126, 65535, 65536};
	static uint8_t zeros[65536];
	char accept[WS_ACCEPT_SIZE];

	for (unsigned i = 0; i < 5; i++) {
		size_t before = out.len, header = sizes[i] < 126 ? 2 : sizes[i] < 65536 ? 4 : 10;

		ws_put(&out, WS_BINARY, zeros, sizes[i]);
		OK(out.len - before == header + sizes[i]);
		OK(buf_data(&out)[before] == 0x82);
	}
	buf_drop(&out, out.len);
	ws_put_close(&out, 4001, "no");
	OK(out.len == 6 && memcmp(buf_data(&out), "\x88\x04\x0f\xa1no", 6) == 0);
	/* The example of the standard. */
	ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept);
	STR_IS(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	ws_accept("a key that is much longer than any key of a browser has ever been and will ever "
		  "be, "
		  "which is cut",
		accept);
	OK(strlen(accept) == WS_ACCEPT_SIZE - 1);
}

int main(void)
{
	test_decoding();
	test_rules();
	test_ours();
	return tap_done();
}
