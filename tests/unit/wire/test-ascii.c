#include "wire/ascii.h"

#include "tap.h"
#include "wire/base64-raw.h"

static void test_base64(void)
{
	const uint8_t in[] = {0, 255, 'm', 'o', 'a', 't', 10};
	char text[64];
	uint8_t out[64];

	for (size_t n = 0; n <= sizeof(in); n++) {
		base64_put(in, n, text);
		OK(base64_get(text, base64_len(n), out) == (long)n && memcmp(in, out, n) == 0);
	}
	base64_put((const uint8_t *)"moat", 4, text);
	OK(memcmp(text, "bW9hdA==", 8) == 0);
	OK(base64_get("bW9", 3, out) < 0);
	OK(base64_get("bW9*", 4, out) < 0);
	OK(base64_get("b===", 4, out) < 0);
}

static void test_crc(void)
{
	OK(ascii_crc(0, "123456789", 9) == 0xcbf43926);
	OK(ascii_crc(ascii_crc(0, "1234", 4), "56789", 5) == 0xcbf43926);
}

struct got {
	char text[200];
	size_t len;
	int begins, losses;
};

static void feed(struct ascii_reader *r, const char *p, size_t left, struct got *got)
{
	uint8_t out[ASCII_PIECE];
	enum ascii_event event;
	size_t n = 0;

	while ((event = ascii_read(r, &p, &left, out, &n)) != ASCII_NOTHING) {
		got->begins += event == ASCII_BEGIN;
		got->losses += event == ASCII_LOST;
		if (event == ASCII_LOST)
			continue;
		memcpy(got->text + got->len, out, n);
		got->len += n;
		got->text[got->len] = 0;
	}
}

static void say(struct ascii_reader *r, uint16_t number, const char *words, struct got *got)
{
	char line[ASCII_LINE_MAX];
	size_t n = ascii_line(ASCII_TO_GUEST, number, (const uint8_t *)words, strlen(words), line);

	feed(r, line, n, got);
}

static void test_lines(void)
{
	struct ascii_reader r = {.side = ASCII_TO_GUEST};
	struct got got = {0};
	char line[ASCII_LINE_MAX], rubbish[2 * ASCII_LINE_MAX];
	size_t n;

	say(&r, 7, "old", &got); /* before a conversation has begun */
	say(&r, 0, "a", &got);
	OK(got.begins == 1);
	n = ascii_line(ASCII_TO_HOST, 1, (const uint8_t *)"echo", 4, line);
	feed(&r, line, n, &got);                     /* a line of the other side */
	feed(&r, "Debian login: \x1b[0m", 17, &got); /* no newline */
	say(&r, 1, "b", &got);
	memset(rubbish, '#', sizeof(rubbish));
	feed(&r, rubbish, sizeof(rubbish), &got);
	feed(&r, "\n", 1, &got);
	n = ascii_line(ASCII_TO_GUEST, 2, (const uint8_t *)"c", 1, line);
	line[n - 1] = '\r';
	feed(&r, line, n, &got);
	feed(&r, "\n~not base64\n~\n\n", 16, &got);
	for (size_t i = 0, end = ascii_line(ASCII_TO_GUEST, 3, (const uint8_t *)"d", 1, line);
		i < end; i++)
		feed(&r, line + i, 1, &got);
	STR_IS(got.text, "abcd");
	OK(got.losses == 0);
	n = ascii_line(ASCII_TO_GUEST, 4, (const uint8_t *)"x", 1, line);
	line[5] ^= 1; /* the check sum is wrong now: the line is skipped, and noticed as missing at
			 the next one */
	feed(&r, line, n, &got);
	say(&r, 5, "e", &got);
	OK(got.losses == 1);
	say(&r, 6, "f", &got);
	STR_IS(got.text, "abcd");
	say(&r, 0, "g", &got);
	OK(got.begins == 2 && got.losses == 1);
	STR_IS(got.text, "abcdg");
}

static void test_numbers(void)
{
	struct ascii_reader r = {.side = ASCII_TO_GUEST, .begun = true, .next = UINT16_MAX};
	struct got got = {0};

	OK(ascii_next(0) == 1 && ascii_next(UINT16_MAX) == 1);
	say(&r, UINT16_MAX, "a", &got);
	say(&r, 1, "b", &got);
	STR_IS(got.text, "ab");
	OK(got.begins == 0 && got.losses == 0);
}

static void test_long_line(void)
{
	struct ascii_reader r = {.side = ASCII_TO_GUEST};
	uint8_t in[ASCII_PIECE], out[ASCII_PIECE];
	char line[ASCII_LINE_MAX];
	const char *p = line;
	size_t n = 0, left;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	left = ascii_line(ASCII_TO_GUEST, 0, in, sizeof(in), line);
	OK(left == ASCII_LINE_MAX);
	OK(ascii_read(&r, &p, &left, out, &n) == ASCII_BEGIN);
	OK(n == sizeof(in) && memcmp(in, out, n) == 0);
}

static void test_head(void)
{
	struct ascii_head h = {.id = "0af3", .parts = 2, .length = 1ull << 40, .crc = 0xbeef}, got;
	char text[ASCII_HEAD_MAX + 1] = "";
	size_t n = ascii_put_head(&h, text);

	STR_IS(text, "moat1 0af3 2 1099511627776 0000beef\n");
	OK(ascii_get_head(text, n, &got) == n);
	OK(strcmp(got.id, h.id) == 0 && got.parts == 2 && got.length == h.length &&
		got.crc == h.crc);
	for (size_t cut = 0; cut < n; cut++)
		if (ascii_get_head(text, cut, &got))
			OK(!"a part is enough");
	OK(!ascii_get_head("moat1 0AF3 2 1 0000beef\n", 24, &got));
	OK(!ascii_get_head("moat1 0af3 -2 1 0000beef\n", 25, &got));
	OK(!ascii_get_head("moat1 0af3 2 1 0000beefs\n", 25, &got));
	OK(!ascii_get_head("moat1 0af3 2 9999999999999999 0000beef\n", 39, &got));
	OK(!ascii_get_head("moat2 0af3 2 1 0000beef\n", 24, &got));
	OK(ascii_is_id("00ff") && !ascii_is_id("") && !ascii_is_id("../x"));
}

int main(void)
{
	test_base64();
	test_crc();
	test_lines();
	test_numbers();
	test_long_line();
	test_head();
	return tap_done();
}
