#include "driver/proxmox/guest/websocket.h"

#include "tap.h"
#include "util/auto.h"

#define TEXT(s) ((struct bytes){(const uint8_t *)(s), sizeof(s) - 1})

static struct err e;

static void test_put(void)
{
	auto_buf struct buf b = {0};
	const uint8_t want[] = {
		0x82, 0x85, 1, 2, 3, 4, 'h' ^ 1, 'e' ^ 2, 'l' ^ 3, 'l' ^ 4, 'o' ^ 1};

	OK(ws_put(&b, WS_BINARY, TEXT("hello"), 0x04030201, &e) == 0);
	OK(b.len == sizeof(want) && memcmp(buf_data(&b), want, sizeof(want)) == 0);
	buf_free(&b);
	OK(ws_put_term(&b, TEXT("hi\n"), 0, &e) == 0);
	OK(b.len == 6 + 7 && memcmp(buf_data(&b) + 6, "0:3:hi\n", 7) == 0);
}

static void test_lengths(void)
{
	static uint8_t body[70000];
	const size_t lengths[] = {0, 125, 126, 65535, 65536, 70000};

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		auto_buf struct buf b = {0};
		struct ws_frame f;
		size_t n = lengths[i], head;

		OK(ws_put(&b, WS_BINARY, (struct bytes){body, n}, 0, &e) == 0);
		/* As a server sends it: not masked, and without a key. */
		buf_data(&b)[1] &= 0x7f;
		head = b.len - n - 4;
		memmove(buf_data(&b) + head, buf_data(&b) + head + 4, n);
		b.len -= 4;
		OK(ws_get(buf_bytes(&b), &f) == (long)b.len && f.payload.len == n);
		b.len--;
		OK(ws_get(buf_bytes(&b), &f) == 0);
	}
}

static void test_get(void)
{
	struct ws_frame f;

	OK(ws_get(TEXT("\x82\x02OKmore"), &f) == 4);
	OK(f.opcode == WS_BINARY && memcmp(f.payload.p, "OK", 2) == 0);
	OK(ws_get(TEXT("\x89"), &f) == 0);
	OK(ws_get(TEXT("\x89\x00"), &f) == 2 && f.opcode == WS_PING);
	OK(ws_get(TEXT("\x82\x82OK"), &f) < 0); /* masked */
	OK(ws_get(TEXT("\xc2\x02OK"), &f) < 0); /* an extension */
	OK(ws_get(TEXT("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), &f) < 0);
}

static void test_answer(void)
{
	const char good[] =
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x82\x02OK";

	OK(ws_answer(TEXT(good), &e) == (long)sizeof(good) - 1 - 4);
	OK(ws_answer(TEXT("HTTP/1.1 101 Switching"), &e) == 0);
	OK(ws_answer((struct bytes){0}, &e) == 0);
	OK(ws_answer(TEXT("HTTP/1.1 401 permission denied\r\n\r\n"), &e) < 0);
	STR_IS(e.msg, "the server opened no websocket: HTTP/1.1 401 permission denied");
	OK(ws_answer(TEXT("SSH-2.0\r\n\r\n"), &e) < 0);
}

int main(void)
{
	test_put();
	test_lengths();
	test_get();
	test_answer();
	return tap_done();
}
