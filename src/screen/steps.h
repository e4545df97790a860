/* steps.h - what a person at the keyboard and mouse does, one movement after the other: a driver
 * does them. Plain data and a growing list of it; pure. */
#pragma once

#include <stdlib.h>

#include "screen/keys.h"

/* A position is a fraction of the screen's width or height, in units of 1 / POSITION_ONE. So the
 * screen may change its size at any time. */
enum { POSITION_ONE = 32768 };

enum screen_button { BUTTON_LEFT, BUTTON_MIDDLE, BUTTON_RIGHT, SCREEN_BUTTONS };

enum step_kind {
	STEP_KEY,    /* key goes down or up; a driver may put several that follow together */
	STEP_MOVE,   /* the pointer goes to x, y */
	STEP_BUTTON, /* goes down or up */
	STEP_WHEEL,  /* one click, down (towards the user) or up */
	STEP_PAUSE,  /* for ms */
};

struct step {
	enum step_kind kind;
	const struct keycap *key;
	unsigned x, y;
	enum screen_button button;
	bool down;
	unsigned ms;
};

/* Zero-initialised is empty. */
struct steps {
	struct step *list;
	size_t n, room;
};

static inline void steps_free(struct steps *s)
{
	free(s->list);
	*s = (struct steps){0};
}
#define auto_steps __attribute__((cleanup(steps_free)))

enum { STEPS_MAX = 1024 * 1024 };
int steps_add(struct steps *s, struct step step, struct err *e);
int steps_add_key(struct steps *s, const struct keycap *key, bool down, struct err *e);
int steps_add_pause(struct steps *s, unsigned ms, struct err *e);
