#include "util/buf.h"

#include "tap.h"
#include "util/auto.h"

static void test_growth(void)
{
	auto_buf struct buf b = {0};
	bool good = true;
	struct err e;

	for (unsigned i = 0; i < 100000; i++)
		good &= buf_add(&b, &(uint8_t){(uint8_t)(i * 7)}, 1, &e) == 0;
	OK(good && b.len == 100000);
	for (unsigned i = 0; i < 100000; i++)
		good &= buf_data(&b)[i] == (uint8_t)(i * 7);
	OK(good);
	OK(buf_add(&b, NULL, 0, &e) == 0 && b.len == 100000);
	OK(!buf_room(&b, SIZE_MAX));
	OK(b.len == 100000 && buf_data(&b)[1] == 7);
}

/* Used as a queue (bytes added behind and dropped in front), a buffer does not grow for ever. */
static void test_queue(void)
{
	auto_buf struct buf b = {0};
	uint8_t in = 0, out = 0;
	bool good = true;
	struct err e;

	for (unsigned round = 0; round < 20000; round++) {
		uint8_t piece[37];

		for (unsigned i = 0; i < sizeof(piece); i++)
			piece[i] = in++;
		good &= buf_add(&b, piece, sizeof(piece), &e) == 0;
		while (b.len > 20) {
			good &= *buf_data(&b) == out++;
			buf_drop(&b, 1);
		}
	}
	OK(good && b.len == 20);
	OK(b.cap <= 1024);
}

static void test_memory_returns(void)
{
	auto_buf struct buf b = {0};

	OK(buf_room(&b, 1 << 20));
	buf_grew(&b, 1 << 20);
	buf_drop(&b, 1 << 20);
	OK(b.len == 0 && b.cap == 0 && !b.p);
	OK(buf_room(&b, 1000));
	buf_grew(&b, 1000);
	buf_drop(&b, 1000);
	OK(b.cap >= 1000); /* a small allocation is kept */
}

static void test_text(void)
{
	auto_free char *s = NULL, *empty = NULL;
	auto_buf struct buf b = {0};
	struct err e;

	OK(buf_add_str(&b, "xxab", &e) == 0 && buf_printf(&b, &e, "-%d-%s", 5, "end") == 0);
	buf_drop(&b, 2);
	s = buf_take_str(&b);
	STR_IS(s, "ab-5-end");
	OK(b.len == 0 && !b.p);
	empty = buf_take_str(&b);
	STR_IS(empty, "");
}

static void test_le32(void)
{
	uint8_t p[4];

	put_le32(p, 0x80c0ffee);
	OK(p[0] == 0xee && p[3] == 0x80 && get_le32(p) == 0x80c0ffee);
}

int main(void)
{
	test_growth();
	test_queue();
	test_memory_returns();
	test_text();
	test_le32();
	return tap_done();
}
