/* test-picture.c - pictures are read, cut, scaled and written. */
#include <zlib.h>

#include "screen/picture.h"
#include "screen/png.h"
#include "tap.h"
#include "util/auto.h"

static int read_text(const char *text, size_t n, struct picture *ret, struct err *e)
{
	return picture_from_ppm((struct bytes){(const uint8_t *)text, n}, ret, e);
}

static bool is_refused(const char *text, size_t n)
{
	struct picture p = {0};
	struct err e = {0};

	if (read_text(text, n, &p, &e) < 0)
		return p.rgb == NULL && e.kind != ERR_NONE;
	picture_free(&p);
	return false;
}
#define REFUSED(s) OK(is_refused(s, sizeof(s) - 1))

static void test_ppm(void)
{
	auto_picture struct picture p = {0};
	struct err e = {0};

	OK(read_text("P6\n2 1\n255\nabcdef", 17, &p, &e) == 0 && p.width == 2 && p.height == 1 &&
		memcmp(p.rgb, "abcdef", 6) == 0);
	REFUSED("");
	REFUSED("P6");
	REFUSED("P5\n2 1\n255\nabcdef");
	REFUSED("P6\n2 1\n255");
	REFUSED("P6\n2 1\n255\n");
	REFUSED("P6\n2 1\n255\nabcde");
	REFUSED("P6\n2 1\n255\nabcdefg");
	REFUSED("P6\n0 1\n255\n");
	REFUSED("P6\n2 1\n65535\nabcdef");
	REFUSED("P6\n99999999999999999999 1\n255\nabc");
	REFUSED("P6\n8193 1\n255\nabc");
	REFUSED("P621 1\n255\nabc");
}

static void test_crop(void)
{
	auto_picture struct picture p = {0}, part = {0};
	struct err e = {0};

	OK(read_text("P6\n2 2\n255\naaabbbcccddd", 23, &p, &e) == 0);
	OK(picture_crop(&p, 1, 0, 1, 2, &part, &e) == 0 && memcmp(part.rgb, "bbbddd", 6) == 0);
	picture_free(&part);
	OK(picture_crop(&p, 1, 1, 2, 1, &part, &e) < 0 && strstr(e.msg, "not within the screen"));
	OK(picture_crop(&p, 0, 0, 0, 1, &part, &e) < 0);
	OK(picture_crop(&p, 1, 0, 4294967295u, 1, &part, &e) < 0);
}

/* A picture of one colour keeps it, whatever it is stretched to. */
static bool keeps_white(unsigned from, unsigned to)
{
	auto_picture struct picture p = {0}, scaled = {0};
	struct err e = {0};

	if (picture_new(from, 3, &p, &e) < 0)
		return false;
	memset(p.rgb, 255, (size_t)from * 9);
	if (picture_scale(&p, to, 5, &scaled, &e) < 0)
		return false;
	for (size_t i = 0; i < (size_t)to * 15; i++)
		if (scaled.rgb[i] != 255)
			return false;
	return true;
}

static void test_scale(void)
{
	auto_picture struct picture p = {0}, half = {0}, twice = {0};
	struct err e = {0};

	OK(read_text("P6\n2 1\n255\n\0\0\0\xc8\xc8\xc8", 17, &p, &e) == 0);
	OK(picture_scale(&p, 1, 1, &half, &e) == 0 && half.rgb[0] == 100);
	OK(picture_scale(&p, 4, 2, &twice, &e) == 0 && twice.rgb[3] == 0 && twice.rgb[6] == 200 &&
		twice.rgb[21] == 200);
	for (unsigned to = 1; to < 40; to++)
		if (!keeps_white(13, to))
			tap_ok(0, "13 to %u pixels stay white", to);
	OK(keeps_white(1920, 1366) && keeps_white(720, 1366) && keeps_white(8192, 1));
	OK(!picture_equal(&p, &half));
	OK(picture_equal(&p, &p));
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Finds a chunk, whose sum must be right. */
static struct bytes chunk(const struct buf *png, const char *name)
{
	const uint8_t *p = buf_data(png) + 8, *end = buf_data(png) + png->len;

	while (end - p >= 12) {
		uint32_t n = be32(p);

		if (memcmp(p + 4, name, 4) == 0 && crc32(0, p + 4, n + 4) == be32(p + 8 + n))
			return (struct bytes){p + 8, n};
		p += 12 + n;
	}
	return (struct bytes){0};
}

static void test_png(void)
{
	auto_picture struct picture p = {0};
	auto_buf struct buf png = {0};
	uint8_t rows[2 * 7];
	uLongf n = sizeof(rows);
	struct err e = {0};
	struct bytes head, data;

	OK(read_text("P6\n2 2\n255\naaabbbcccddd", 23, &p, &e) == 0);
	OK(png_write(&p, &png, &e) == 0);
	head = chunk(&png, "IHDR");
	data = chunk(&png, "IDAT");
	OK(memcmp(buf_data(&png), "\x89PNG\r\n\x1a\n", 8) == 0);
	OK(head.len == 13 && be32(head.p) == 2 && be32(head.p + 4) == 2 && head.p[8] == 8 &&
		head.p[9] == 2);
	OK(uncompress(rows, &n, data.p, data.len) == Z_OK && n == sizeof(rows));
	OK(memcmp(rows, "\2aaabbb\2\2\2\2\2\2\2", 14) == 0);
	OK(memcmp(buf_data(&png) + png.len - 12, "\0\0\0\0IEND\xae\x42\x60\x82", 12) == 0);
}

int main(void)
{
	test_ppm();
	test_crop();
	test_scale();
	test_png();
	return tap_done();
}
