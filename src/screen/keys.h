/* keys.h - the keys of a keyboard, their names, and what a US layout has on them. Constant data;
 * pure. */
#pragma once

#include <stdint.h>

#include "util/err.h"

struct keycap {
	const char *qcode;   /* QEMU's name of its place */
	const char *names;   /* X11's names of its place, and common ones, with spaces between */
	char plain, shifted; /* what a US layout has on it; 0: no character */
	uint16_t keysym;     /* X11's number, where it is no character */
	uint8_t down, up;    /* the bytes that a PS/2 keyboard sends */
};

/* A key, and whether shift is needed for what it is to mean. */
struct stroke {
	const struct keycap *key;
	bool shift;
};

extern const struct keycap *const key_shift,
	*const key_alt, *const key_enter, *const key_tab, *const key_back, *const key_forward;

/* The stroke for a character of ASCII, or a tab or newline. -1: it has none. */
int stroke_of_char(unsigned c, struct stroke *ret);
/* The stroke of a name: "Return", "a", "plus", "F5". -1: there is no such key. */
int stroke_of_name(const char *name, struct stroke *ret);
