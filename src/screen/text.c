#include "screen/text.h"

#include <stdio.h>
#include <string.h>

#include "util/str.h"

int steps_add(struct steps *s, struct step step, struct err *e)
{
	if (s->n == STEPS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d movements of keys and pointer at once",
			STEPS_MAX);
	if (s->n == s->room) {
		size_t room = s->room ? s->room * 2 : 64;
		struct step *list = realloc(s->list, room * sizeof(*list));

		if (!list)
			return err_oom(e);
		s->list = list;
		s->room = room;
	}
	s->list[s->n++] = step;
	return 0;
}

int steps_add_key(struct steps *s, const struct keycap *key, bool down, struct err *e)
{
	return steps_add(s, (struct step){.kind = STEP_KEY, .key = key, .down = down}, e);
}

int steps_add_pause(struct steps *s, unsigned ms, struct err *e)
{
	return ms ? steps_add(s, (struct step){.kind = STEP_PAUSE, .ms = ms}, e) : 0;
}

static const char *const other_names[] = {"refuse", "alt", "ctrl-shift-u"};

int other_characters_of(const char *name, enum other_characters *ret)
{
	for (int i = 0; i < 3; i++)
		if (strcmp(other_names[i], name) == 0) {
			*ret = (enum other_characters)i;
			return 0;
		}
	return -1;
}

/* The number of the character at p, whose bytes are a valid sequence of n. */
static unsigned code_of(const uint8_t *p, size_t n)
{
	unsigned code = n == 1 ? p[0] : p[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (p[i] & 0x3f);
	return code;
}

/* ---- characters that a US keyboard has not ---- */

static int tap(const struct keycap *key, struct steps *ret, struct err *e)
{
	if (steps_add_key(ret, key, true, e) < 0)
		return -1;
	return steps_add_key(ret, key, false, e);
}

static int tap_named(const char *name, struct steps *ret, struct err *e)
{
	struct stroke stroke;

	if (stroke_of_name(name, &stroke) < 0)
		return err_set(e, ERR_INTERNAL, "no key %s", name);
	return tap(stroke.key, ret, e);
}

/* Windows takes a number with a zero in front for one of its code page, which is Latin-1 for these
 * characters. Linux takes any, and leaves out zeros in front. */
static int type_alt(unsigned code, struct steps *ret, struct err *e)
{
	char digits[16], name[8];

	snprintf(digits, sizeof(digits), "0%u", code);
	if (steps_add_key(ret, key_alt, true, e) < 0)
		return -1;
	for (const char *d = digits; *d; d++) {
		snprintf(name, sizeof(name), "KP_%c", *d);
		if (tap_named(name, ret, e) < 0)
			return -1;
	}
	return steps_add_key(ret, key_alt, false, e);
}

static int type_hex(unsigned code, struct steps *ret, struct err *e)
{
	const char *begin = "ctrl+shift+u";
	struct chord c;
	char digits[16];

	snprintf(digits, sizeof(digits), "%x", code);
	if (chord_next(&begin, &c, e) < 0 || chord_press(&c, true, ret, e) < 0 ||
		chord_press(&c, false, ret, e) < 0)
		return -1;
	for (const char *d = digits; *d; d++)
		if (tap_named((char[]){*d, 0}, ret, e) < 0)
			return -1;
	return tap_named("space", ret, e);
}

static int refuse(
	const char *at, size_t n, unsigned code, enum other_characters other, struct err *e)
{
	char shown[32];

	str_escape(at, n, shown, sizeof(shown));
	if (other == OTHER_ALT)
		return err_set(e, ERR_UNSUPPORTED,
			"the character \"%s\" (U+%04X) has no Alt code: only those up to U+00FF do",
			shown, code);
	return err_set(e, ERR_UNSUPPORTED,
		"the character \"%s\" (U+%04X) is not on a US keyboard; some guests take it by "
		"Ctrl+Shift+U or by Alt and its number, if that is asked for",
		shown, code);
}

static int type_other(
	const char *at, size_t n, enum other_characters other, struct steps *ret, struct err *e)
{
	unsigned code = code_of((const uint8_t *)at, n);

	if (other == OTHER_HEX && code > 0x9f)
		return type_hex(code, ret, e);
	/* Between 0x80 and 0x9f Windows has other characters than Unicode. */
	if (other == OTHER_ALT && code > 0x9f && code <= 0xff)
		return type_alt(code, ret, e);
	return refuse(at, n, code, other, e);
}

/* ---- text ---- */

/* How far shift is down between two characters. */
static int set_shift(bool *down, bool wanted, struct steps *ret, struct err *e)
{
	if (*down == wanted)
		return 0;
	*down = wanted;
	return steps_add_key(ret, key_shift, wanted, e);
}

static int type_all(const char *text, enum other_characters other, struct steps *ret, struct err *e)
{
	const char *end = text + strlen(text);
	struct stroke stroke;
	bool shift = false;

	while (text < end) {
		bool ascii = stroke_of_char((unsigned char)*text, &stroke) == 0;
		size_t n = ascii ? 1 : str_printable((const uint8_t *)text, (size_t)(end - text));

		if (!n)
			return err_set(e, ERR_INVALID, "the text has a control character: \\x%02x",
				(unsigned char)*text);
		if (set_shift(&shift, ascii && stroke.shift, ret, e) < 0 ||
			(ascii ? tap(stroke.key, ret, e) : type_other(text, n, other, ret, e)) < 0)
			return -1;
		text += n;
	}
	return set_shift(&shift, false, ret, e);
}

int text_type(const char *text, enum other_characters other, struct steps *ret, struct err *e)
{
	size_t before = ret->n;

	if (strlen(text) > TEXT_MAX)
		return err_set(e, ERR_LIMIT, "the text is longer than %d bytes: type it in parts",
			TEXT_MAX);
	if (type_all(text, other, ret, e) == 0)
		return 0;
	ret->n = before;
	return -1;
}

/* ---- chords ---- */

static int chord_add(struct chord *c, const struct keycap *key, const char *text, struct err *e)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->keys[i] == key)
			return 0;
	if (c->n == CHORD_MAX)
		return err_set(
			e, ERR_INVALID, "\"%.64s\" is more than %d keys at once", text, CHORD_MAX);
	c->keys[c->n++] = key;
	return 0;
}

static int add_name(struct chord *c, const char *name, const char *text, struct err *e)
{
	struct stroke stroke;
	char shown[80];

	if (stroke_of_name(name, &stroke) < 0) {
		str_escape(name, strlen(name), shown, sizeof(shown));
		return err_set(e, ERR_INVALID,
			"no key is called \"%s\"; keys have the names that X11 gives them, such as "
			"Return, Escape, F5, comma",
			shown);
	}
	if (stroke.shift && chord_add(c, key_shift, text, e) < 0)
		return -1;
	return chord_add(c, stroke.key, text, e);
}

int chord_next(const char **at, struct chord *ret, struct err *e)
{
	const char *text = *at + strspn(*at, " \t\n");
	size_t left = strcspn(text, " \t\n");
	struct chord c = {0};

	if (strlen(*at) > KEYS_TEXT_MAX)
		return err_set(
			e, ERR_LIMIT, "names of keys with more than %d bytes", KEYS_TEXT_MAX);
	*at = text + left;
	if (!left)
		return 0;
	for (const char *p = text; left > 0;) {
		char name[64] = {0};
		/* A plus at the beginning of a name is one: "ctrl++". */
		const char *plus = memchr(p + 1, '+', left - 1);
		size_t n = plus ? (size_t)(plus - p) : left;

		memcpy(name, p, n < sizeof(name) ? n : sizeof(name) - 1);
		if (add_name(&c, name, text, e) < 0)
			return -1;
		p += n;
		left -= n;
		if (left == 1)
			return err_set(e, ERR_INVALID, "\"%.64s\" ends with a plus", text);
		if (left) {
			p++;
			left--;
		}
	}
	*ret = c;
	return 1;
}

int chord_press(const struct chord *c, bool down, struct steps *ret, struct err *e)
{
	for (unsigned i = 0; i < c->n; i++)
		if (steps_add_key(ret, c->keys[down ? i : c->n - 1 - i], down, e) < 0)
			return -1;
	return 0;
}
