#include "util/str.h"

#include "tap.h"
#include "util/auto.h"

static const char *escaped(const char *in, size_t len)
{
	static char out[256];

	str_escape(in, len, out, sizeof(out));
	return out;
}
#define ESCAPED(literal) escaped(literal, sizeof(literal) - 1)

static void test_escape(void)
{
	STR_IS(ESCAPED("plain text"), "plain text");
	STR_IS(ESCAPED("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
		"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
	STR_IS(ESCAPED("a\nb\r\tc"), "a\\x0ab\\x0d\\x09c");
	STR_IS(ESCAPED("\x1b[2J\x07\x7f"), "\\x1b[2J\\x07\\x7f");
	STR_IS(ESCAPED("nul\0inside"), "nul\\x00inside");
	STR_IS(ESCAPED("\xc2\x9b"
		       "31m"),
		"\\xc2\\x9b31m"); /* a C1 control: CSI */
	STR_IS(ESCAPED("\xff\xfe"), "\\xff\\xfe");
	STR_IS(ESCAPED("\xc0\xaf"), "\\xc0\\xaf");                   /* overlong */
	STR_IS(ESCAPED("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");          /* overlong */
	STR_IS(ESCAPED("\xed\xa0\x80"), "\\xed\\xa0\\x80");          /* surrogate */
	STR_IS(ESCAPED("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
	/* Marks of direction: U+200F, U+202E, U+2066, U+061C; but not U+061D. */
	STR_IS(ESCAPED("\xe2\x80\x8f \xe2\x80\xae"), "\\xe2\\x80\\x8f \\xe2\\x80\\xae");
	STR_IS(ESCAPED("\xe2\x81\xa6"), "\\xe2\\x81\\xa6");
	STR_IS(ESCAPED("\xd8\x9c \xd8\x9d"), "\\xd8\\x9c \xd8\x9d");
	STR_IS(ESCAPED("cut \xe2\x82"), "cut \\xe2\\x82");
	STR_IS(ESCAPED("\xe2(\xa1"), "\\xe2(\\xa1");
}

/* For every size of output: it ends with NUL, is never longer, and has no incomplete sequence. */
static void test_escape_room(void)
{
	static const char in[] = "a\x01\xe2\x82\xac\xff"
				 "b";
	static const char *const whole = "a\\x01\xe2\x82\xac\\xffb";
	bool bounded = true, prefix = true, whole_pieces = true;
	char out[32];

	for (size_t size = 1; size < sizeof(out); size++) {
		size_t n;

		memset(out, '#', sizeof(out));
		str_escape(in, sizeof(in) - 1, out, size);
		n = strlen(out);
		bounded &= n < size && out[size] == '#';
		prefix &= strncmp(out, whole, n) == 0;
		whole_pieces &= n == 0 || n == 1 || n == 5 || n == 8 || n == 12 || n == 13;
	}
	OK(bounded);
	OK(prefix);
	OK(whole_pieces);
	STR_IS(out, whole);
	out[0] = '#';
	str_escape(in, sizeof(in) - 1, out, 0);
	OK(out[0] == '#');
}

static void test_numbers(void)
{
	static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "0x10", "1.5", "ten",
		"18446744073709551616", "99999999999999999999999"};
	uint64_t v = 77;
	struct err e;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		tap_ok(str_to_u64(bad[i], 0, UINT64_MAX, &v, &e) < 0 && e.kind == ERR_INVALID &&
				v == 77,
			"\"%s\" is refused", bad[i]);
	OK(str_to_u64("18446744073709551615", 0, UINT64_MAX, &v, &e) == 0 && v == UINT64_MAX);
	OK(str_to_u64("007", 1, 10, &v, &e) == 0 && v == 7);
	OK(str_to_u64("11", 1, 10, &v, &e) < 0);
	STR_IS(e.msg, "11 is not between 1 and 10");
	OK(str_to_u64("0", 1, 10, &v, &e) < 0 && v == 7);
}

static void test_small(void)
{
	auto_free char *s = NULL, *copy = NULL;
	struct err e;
	char hex[9];

	OK(str_starts("moat-x", "moat-") && !str_starts("mo", "moat") && str_starts("x", ""));
	OK(str_ends("a.qcow2", ".qcow2") && !str_ends("w2", ".qcow2") && str_ends("x", ""));
	OK(str_empty(NULL) && str_empty("") && !str_empty(" "));
	OK(str_printf(&s, &e, "%s/%d", "a", 1) == 0 && str_dup(s, &copy, &e) == 0);
	STR_IS(copy, "a/1");
	str_hex((const uint8_t[]){0x00, 0xff, 0x0a, 0xb0}, 4, hex);
	STR_IS(hex, "00ff0ab0");
}

int main(void)
{
	test_escape();
	test_escape_room();
	test_numbers();
	test_small();
	return tap_done();
}
