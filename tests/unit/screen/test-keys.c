/* test-keys.c - names of keys, and text as keys of a US keyboard. */
#include "screen/text.h"
#include "tap.h"
#include "util/auto.h"

/* The steps as text: "+a" goes down, "-a" comes up. */
static const char *spell(const struct steps *s)
{
	static char text[4096];
	size_t len = 0;

	text[0] = 0;
	for (size_t i = 0; i < s->n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%c%s", i ? " " : "",
			s->list[i].down ? '+' : '-', s->list[i].key->qcode);
	return text;
}

static const char *typed(const char *text, enum other_characters other)
{
	auto_steps struct steps s = {0};
	struct err e = {0};

	return text_type(text, other, &s, &e) < 0 ? "refused" : spell(&s);
}

static const char *refused(const char *text, enum other_characters other)
{
	static char said[1024];
	auto_steps struct steps s = {0};
	struct err e = {0};

	said[0] = 0;
	if (text_type(text, other, &s, &e) < 0 && s.n == 0)
		snprintf(said, sizeof(said), "%s", e.msg);
	return said;
}

static const char *pressed(const char *text)
{
	static char said[1024];
	auto_steps struct steps s = {0};
	struct err e = {0};
	struct chord c;
	int more;

	while ((more = chord_next(&text, &c, &e)) > 0)
		if (chord_press(&c, true, &s, &e) < 0 || chord_press(&c, false, &s, &e) < 0)
			return "no memory";
	snprintf(said, sizeof(said), "%s", more < 0 ? e.msg : spell(&s));
	return said;
}

/* Every character has one key, and no two have the same. */
static void test_ascii(void)
{
	struct stroke seen[128];
	unsigned n = 0;
	bool unique = true;

	for (unsigned c = ' '; c < 127; c++) {
		if (stroke_of_char(c, &seen[n]) < 0)
			break;
		for (unsigned i = 0; i < n; i++)
			unique = unique &&
				 (seen[i].key != seen[n].key || seen[i].shift != seen[n].shift);
		n++;
	}
	tap_ok(n == 95, "all 95 characters have a key, and not %u", n);
	OK(unique);
	OK(stroke_of_char(0, &seen[0]) < 0 && stroke_of_char(127, &seen[0]) < 0 &&
		stroke_of_char(0xe4, &seen[0]) < 0);
}

static void test_text(void)
{
	STR_IS(typed("", OTHER_REFUSED), "");
	STR_IS(typed("aB", OTHER_REFUSED), "+a -a +shift +b -b -shift");
	STR_IS(typed("A!\n\t", OTHER_REFUSED), "+shift +a -a +1 -1 -shift +ret -ret +tab -tab");
	STR_IS(typed("1 ~`", OTHER_REFUSED),
		"+1 -1 +spc -spc +shift +grave_accent -grave_accent -shift +grave_accent "
		"-grave_accent");
	OK(strstr(refused("a\xc3\xa4", OTHER_REFUSED), "\"\xc3\xa4\" (U+00E4) is not on a US"));
	OK(strstr(refused("\xe2\x82\xac", OTHER_ALT), "(U+20AC) has no Alt code"));
	OK(strstr(refused("a\x1b", OTHER_HEX), "control character: \\x1b"));
	OK(strstr(refused("\xff", OTHER_HEX), "control character: \\xff"));
	STR_IS(typed("\xc3\xa4", OTHER_ALT),
		"+alt +kp_0 -kp_0 +kp_2 -kp_2 +kp_2 -kp_2 +kp_8 -kp_8 -alt");
	STR_IS(typed("\xe2\x82\xac", OTHER_HEX),
		"+ctrl +shift +u -u -shift -ctrl +2 -2 +0 -0 +a -a +c -c +spc -spc");
}

static void test_chords(void)
{
	STR_IS(pressed("ctrl+shift+t"), "+ctrl +shift +t -t -shift -ctrl");
	STR_IS(pressed("  Return  F5 "), "+ret -ret +f5 -f5");
	STR_IS(pressed("RETURN"), "+ret -ret");
	STR_IS(pressed("A"), "+shift +a -a -shift");
	STR_IS(pressed("ctrl+A"), "+ctrl +shift +a -a -shift -ctrl");
	STR_IS(pressed("ctrl++"), "+ctrl +shift +equal -equal -shift -ctrl");
	STR_IS(pressed("+"), "+shift +equal -equal -shift");
	STR_IS(pressed("ctrl+comma"), "+ctrl +comma -comma -ctrl");
	STR_IS(pressed("shift+A"), "+shift +a -a -shift");
	STR_IS(pressed("Prior Next super"), "+pgup -pgup +pgdn -pgdn +meta_l -meta_l");
	STR_IS(pressed("alt+Shift_L+F4"), "+alt +shift +f4 -f4 -shift -alt");
	OK(strstr(pressed("ctrl+nonsense"), "no key is called \"nonsense\""));
	OK(strstr(pressed("ctrl+"), "ends with a plus"));
	OK(strstr(pressed("\x1b"), "no key is called \"\\x1b\""));
	OK(strstr(pressed("a+b+c+d+e+f+g+h+i"), "more than 8 keys"));
}

static void test_places(void)
{
	STR_IS(key_enter->qcode, "ret");
	STR_IS(key_tab->qcode, "tab");
	STR_IS(key_shift->qcode, "shift");
	STR_IS(key_alt->qcode, "alt");
	STR_IS(key_back->qcode, "ac_back");
	STR_IS(key_forward->qcode, "ac_forward");
}

int main(void)
{
	test_ascii();
	test_text();
	test_chords();
	test_places();
	return tap_done();
}
