#include "wire/frame.h"

#include "tap.h"

static const struct frame_limits limits = {.head_min = 1, .head_max = 100, .body_max = 50};

static void test_round_trip(void)
{
	uint8_t p[FRAME_HEADER + 3 + 2 + 9];
	struct frame f;

	frame_encode_header(p, 3, 2);
	memcpy(p + FRAME_HEADER, "abcde", 5);
	memcpy(p + FRAME_HEADER + 5, "following", 9);
	OK(frame_decode(p, sizeof(p), &limits, &f) == FRAME_HEADER + 5);
	OK(f.head_len == 3 && memcmp(f.head, "abc", 3) == 0);
	OK(f.body_len == 2 && memcmp(f.body, "de", 2) == 0);
	frame_encode_header(p, 0x01020304, 0xfffefdfc);
	OK(memcmp(p, "\4\3\2\1\xfc\xfd\xfe\xff", 8) == 0);
}

static void test_partial(void)
{
	uint8_t p[FRAME_HEADER + 10];
	struct frame f = {.head_len = 77};
	int needs_more = 1;

	frame_encode_header(p, 6, 4);
	for (size_t n = 0; n < sizeof(p); n++)
		needs_more &= frame_decode(p, n, &limits, &f) == 0;
	OK(needs_more && f.head_len == 77);
	OK(frame_decode(p, sizeof(p), &limits, &f) == (long)sizeof(p) && f.head_len == 6);
}

/* A frame that is too large is refused as soon as its header is there. */
static void test_limits(void)
{
	uint8_t p[FRAME_HEADER + 200] = {0};
	struct frame f;

	frame_encode_header(p, 101, 0);
	OK(frame_decode(p, FRAME_HEADER, &limits, &f) == -1);
	frame_encode_header(p, 1, 51);
	OK(frame_decode(p, FRAME_HEADER, &limits, &f) == -1);
	frame_encode_header(p, 0, 0);
	OK(frame_decode(p, FRAME_HEADER, &limits, &f) == -1);
	frame_encode_header(p, UINT32_MAX, UINT32_MAX);
	OK(frame_decode(p, FRAME_HEADER, &limits, &f) == -1);
	frame_encode_header(p, 100, 50);
	OK(frame_decode(p, sizeof(p), &limits, &f) == FRAME_HEADER + 150);
	frame_encode_header(p, 1, 0);
	OK(frame_decode(p, FRAME_HEADER + 1, &limits, &f) == FRAME_HEADER + 1 && f.body_len == 0);
}

int main(void)
{
	test_round_trip();
	test_partial();
	test_limits();
	return tap_done();
}
