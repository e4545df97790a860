/* text.h - text, and combinations of keys, as movements of keys on a US layout. Pure. */
#pragma once

#include <jansson.h>

#include "screen/steps.h"

/* How characters are written that a US keyboard does not have. */
enum other_characters {
	OTHER_REFUSED, /* not at all: text that has one is refused, and it is named */
	OTHER_ALT,     /* Alt and the number, on the keypad: Windows, and Linux's text console */
	OTHER_HEX,     /* Ctrl+Shift+U and the number: GTK and IBus */
};

enum { TEXT_MAX = 64 * 1024, KEYS_TEXT_MAX = 1024 };

/* The name of an enum other_characters: "refuse", "alt", "ctrl-shift-u". -1: there is none. */
int other_characters_of(const char *name, enum other_characters *ret);

/* Adds what types UTF-8 text. Nothing is added if it is refused. */
int text_type(const char *text, enum other_characters other, struct steps *ret, struct err *e);

enum { CHORD_MAX = 8 };
/* Keys that are pressed together: "ctrl+shift+t". */
struct chord {
	const struct keycap *keys[CHORD_MAX];
	unsigned n;
};
/* Reads the next of several chords with spaces between; *at moves on. 1: there was one; 0: the
 * end. */
int chord_next(const char **at, struct chord *ret, struct err *e);
/* Adds going down, in order, or up, in the opposite order. */
int chord_press(const struct chord *c, bool down, struct steps *ret, struct err *e);
