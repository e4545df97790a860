#include "guest/armour.h"

#include "tap.h"
#include "util/base64-raw.h"

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
	OK(armour_crc(0, "123456789", 9) == 0xcbf43926);
	OK(armour_crc(armour_crc(0, "1234", 4), "56789", 5) == 0xcbf43926);
}

struct got {
	char text[200];
	size_t len;
	int begins, losses;
};

static void feed(struct armour_reader *r, const char *p, size_t left, struct got *got)
{
	uint8_t out[ARMOUR_PIECE];
	enum armour_news news;
	size_t n = 0;

	while ((news = armour_read(r, &p, &left, out, &n)) != ARMOUR_NOTHING) {
		got->begins += news == ARMOUR_BEGIN;
		got->losses += news == ARMOUR_LOST;
		if (news == ARMOUR_LOST)
			continue;
		memcpy(got->text + got->len, out, n);
		got->len += n;
		got->text[got->len] = 0;
	}
}

static void say(struct armour_reader *r, uint16_t number, const char *words, struct got *got)
{
	char line[ARMOUR_LINE_MAX];
	size_t n =
		armour_line(ARMOUR_TO_GUEST, number, (const uint8_t *)words, strlen(words), line);

	feed(r, line, n, got);
}

static void test_lines(void)
{
	struct armour_reader r = {.side = ARMOUR_TO_GUEST};
	struct got got = {0};
	char line[ARMOUR_LINE_MAX], rubbish[2 * ARMOUR_LINE_MAX];
	size_t n;

	say(&r, 7, "old", &got); /* before a beginning */
	say(&r, 0, "a", &got);
	OK(got.begins == 1);
	n = armour_line(ARMOUR_TO_HOST, 1, (const uint8_t *)"echo", 4, line);
	feed(&r, line, n, &got);                     /* of the other side */
	feed(&r, "Debian login: \x1b[0m", 17, &got); /* no newline */
	say(&r, 1, "b", &got);
	memset(rubbish, '#', sizeof(rubbish));
	feed(&r, rubbish, sizeof(rubbish), &got);
	feed(&r, "\n", 1, &got);
	n = armour_line(ARMOUR_TO_GUEST, 2, (const uint8_t *)"c", 1, line);
	line[n - 1] = '\r';
	feed(&r, line, n, &got);
	feed(&r, "\n~not base64\n~\n\n", 16, &got);
	for (size_t i = 0, end = armour_line(ARMOUR_TO_GUEST, 3, (const uint8_t *)"d", 1, line);
		i < end; i++)
		feed(&r, line + i, 1, &got);
	STR_IS(got.text, "abcd");
	OK(got.losses == 0);
	n = armour_line(ARMOUR_TO_GUEST, 4, (const uint8_t *)"x", 1, line);
	line[5] ^= 1; /* its sum is wrong now: skipped, and so missed when the next comes */
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
	struct armour_reader r = {.side = ARMOUR_TO_GUEST, .begun = true, .next = UINT16_MAX};
	struct got got = {0};

	OK(armour_next(0) == 1 && armour_next(UINT16_MAX) == 1);
	say(&r, UINT16_MAX, "a", &got);
	say(&r, 1, "b", &got);
	STR_IS(got.text, "ab");
	OK(got.begins == 0 && got.losses == 0);
}

static void test_long_line(void)
{
	struct armour_reader r = {.side = ARMOUR_TO_GUEST};
	uint8_t in[ARMOUR_PIECE], out[ARMOUR_PIECE];
	char line[ARMOUR_LINE_MAX];
	const char *p = line;
	size_t n = 0, left;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	left = armour_line(ARMOUR_TO_GUEST, 0, in, sizeof(in), line);
	OK(left == ARMOUR_LINE_MAX);
	OK(armour_read(&r, &p, &left, out, &n) == ARMOUR_BEGIN);
	OK(n == sizeof(in) && memcmp(in, out, n) == 0);
}

static void test_head(void)
{
	struct armour_head h = {.id = "0af3", .parts = 2, .length = 1ull << 40, .crc = 0xbeef}, got;
	char text[ARMOUR_HEAD_MAX + 1] = "";
	size_t n = armour_put_head(&h, text);

	STR_IS(text, "moat1 0af3 2 1099511627776 0000beef\n");
	OK(armour_get_head(text, n, &got) == n);
	OK(strcmp(got.id, h.id) == 0 && got.parts == 2 && got.length == h.length &&
		got.crc == h.crc);
	for (size_t cut = 0; cut < n; cut++)
		if (armour_get_head(text, cut, &got))
			OK(!"a part is enough");
	OK(!armour_get_head("moat1 0AF3 2 1 0000beef\n", 24, &got));
	OK(!armour_get_head("moat1 0af3 -2 1 0000beef\n", 25, &got));
	OK(!armour_get_head("moat1 0af3 2 1 0000beefs\n", 25, &got));
	OK(!armour_get_head("moat1 0af3 2 9999999999999999 0000beef\n", 39, &got));
	OK(!armour_get_head("moat2 0af3 2 1 0000beef\n", 24, &got));
	OK(armour_is_id("00ff") && !armour_is_id("") && !armour_is_id("../x"));
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
