/* test-rfb-filter.c - what of a viewer's messages gets through. */
#include "screen/rfb-filter.h"
#include "tap.h"
#include "util/auto.h"

#define HELLO "RFB 003.008\n\1\1"

static struct buf out;

/* Feeds a filter byte by byte, or all at once; returns what came out, after the greeting. */
static struct bytes filtered(bool control, bool by_byte, const void *msg, size_t n)
{
	struct rfb_filter f = {.control = control};
	struct bytes in = {msg, n}, none = {0};
	struct err e = {0};
	int rc;

	buf_free(&out);
	rc = rfb_filter_feed(&f, (struct bytes){(const uint8_t *)HELLO, 14}, &out, &e);
	if (rc < 0 || out.len != 14)
		return none;
	for (size_t i = 0; by_byte && rc == 0 && i < n; i++)
		rc = rfb_filter_feed(&f, (struct bytes){in.p + i, 1}, &out, &e);
	if (!by_byte)
		rc = rfb_filter_feed(&f, in, &out, &e);
	rfb_filter_free(&f);
	return rc < 0 ? none : (struct bytes){buf_data(&out) + 14, out.len - 14};
}

static bool passes(bool control, const void *msg, size_t n)
{
	for (int by_byte = 0; by_byte < 2; by_byte++) {
		struct bytes got = filtered(control, by_byte, msg, n);

		if (got.len != n || memcmp(got.p, msg, n) != 0)
			return false;
	}
	return true;
}

/* Is the message swallowed whole? What follows it must come through. */
static bool is_dropped(bool control, const void *msg, size_t n)
{
	static const uint8_t ask[10] = {3, 1, 0, 0, 0, 0, 9, 9, 9, 9};
	uint8_t both[1024];

	memcpy(both, msg, n);
	memcpy(both + n, ask, sizeof(ask));
	for (int by_byte = 0; by_byte < 2; by_byte++) {
		struct bytes got = filtered(control, by_byte, both, n + sizeof(ask));

		if (got.len != sizeof(ask) || memcmp(got.p, ask, sizeof(ask)) != 0)
			return false;
	}
	return true;
}

static void test_messages(void)
{
	static const uint8_t key[8] = {4, 1, 0, 0, 0, 0, 0, 'a'}, pointer[6] = {5, 1, 0, 9, 0, 9},
			     code[12] = {255, 0, 0, 1}, format[20] = {0},
			     text[8 + 3] = {6, [7] = 3, 'x', 'y', 'z'},
			     negative[8 + 3] = {6, 0, 0, 0, 255, 255, 255, 253, 4, 4, 4},
			     size[8 + 16] = {251, 0, 7, 128, 4, 56, 1}, power[4] = {250, 0, 1, 2},
			     sound[4] = {255, 1, 0, 0}, sound_format[10] = {255, 1, 0, 2};

	OK(!passes(false, key, sizeof(key)) && is_dropped(false, key, sizeof(key)));
	OK(is_dropped(false, pointer, sizeof(pointer)));
	OK(is_dropped(false, code, sizeof(code)));
	OK(passes(true, key, sizeof(key)) && passes(true, pointer, sizeof(pointer)) &&
		passes(true, code, sizeof(code)));
	OK(passes(false, format, sizeof(format)));
	for (int control = 0; control < 2; control++) {
		OK(is_dropped(control, text, sizeof(text)));
		OK(is_dropped(control, negative, sizeof(negative)));
		OK(is_dropped(control, size, sizeof(size)));
		OK(is_dropped(control, power, sizeof(power)));
		OK(is_dropped(control, sound, sizeof(sound)));
		OK(is_dropped(control, sound_format, sizeof(sound_format)));
	}
}

/* A server that is not asked for sizes, sound and the clipboard offers none of them. */
static void test_encodings(void)
{
	static const uint8_t asked[] = {2, 0, 0, 6, 0, 0, 0, 0, 255, 255, 254, 253, 255, 255, 254,
		204, 255, 255, 255, 33, 0xc0, 0xa1, 0xe5, 0xce, 255, 255, 254, 254};
	static const uint8_t want[] = {
		2, 0, 0, 3, 0, 0, 0, 0, 255, 255, 255, 33, 255, 255, 254, 254};
	static const uint8_t many[4] = {2, 0, 5, 0};
	struct bytes got = filtered(false, true, asked, sizeof(asked));

	OK(got.len == sizeof(want) && memcmp(got.p, want, sizeof(want)) == 0);
	OK(filtered(false, false, many, sizeof(many)).p == NULL);
}

/* Four gigabytes of clipboard cost no memory. */
static void test_endless_text(void)
{
	static const uint8_t head[8] = {6, 0, 0, 0, 127, 255, 255, 255};
	static uint8_t piece[65536];
	struct rfb_filter f = {.stage = RFB_MESSAGES};
	struct err e = {0};
	int rc;

	buf_free(&out);
	rc = rfb_filter_feed(&f, (struct bytes){head, sizeof(head)}, &out, &e);
	for (int i = 0; rc == 0 && i < 1000; i++)
		rc = rfb_filter_feed(&f, (struct bytes){piece, sizeof(piece)}, &out, &e);
	OK(rc == 0 && out.len == 0 && f.in.cap < 65536);
	rfb_filter_free(&f);
}

/* What a viewer that leaves lets go of. */
static struct bytes left_with(bool control, const void *msg, size_t n)
{
	struct rfb_filter f = {.control = control, .stage = RFB_MESSAGES};
	struct err e = {0};

	buf_free(&out);
	OK(rfb_filter_feed(&f, (struct bytes){msg, n}, &out, &e) == 0);
	buf_drop(&out, out.len);
	OK(rfb_filter_end(&f, &out, &e) == 0);
	rfb_filter_free(&f);
	return buf_bytes(&out);
}

static void test_end(void)
{
	static const uint8_t down[6] = {5, 1, 0, 9, 1, 8}, up[6] = {5, 0, 0, 9, 1, 8};
	struct bytes got = left_with(true, down, sizeof(down));

	OK(got.len == sizeof(up) && memcmp(got.p, up, sizeof(up)) == 0);
	OK(left_with(true, up, sizeof(up)).len == 0);
	OK(left_with(false, down, sizeof(down)).len == 0);
}

static bool greets(const char *hello, size_t n, const char *want)
{
	struct rfb_filter f = {0};
	struct err e = {0};
	int rc;

	buf_free(&out);
	rc = rfb_filter_feed(&f, (struct bytes){(const uint8_t *)hello, n}, &out, &e);
	rfb_filter_free(&f);
	return want ? rc == 0 && out.len == n && memcmp(buf_data(&out), want, n) == 0 : rc < 0;
}

static void test_greeting(void)
{
	/* Who asks to be alone is not: the others would be sent away. */
	OK(greets("RFB 003.008\n\1\0", 14, "RFB 003.008\n\1\1"));
	OK(greets("RFB 003.007\n\1\1", 14, "RFB 003.007\n\1\1"));
	OK(greets("RFB 003.003\n", 12, NULL));
	OK(greets("GET / HTTP/1.0", 14, NULL));
	OK(filtered(false, false, "\7", 1).p == NULL);
}

int main(void)
{
	test_messages();
	test_encodings();
	test_endless_text();
	test_end();
	test_greeting();
	buf_free(&out);
	return tap_done();
}
