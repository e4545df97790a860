/*
 * gestures.h - what a client asks of a keyboard and a pointer (clicks, drags, text) as the
 * movements that a driver makes. Pure.
 */
#pragma once

#include <jansson.h>

#include "screen/text.h"

struct pointer {
	bool known;    /* moat has moved it */
	unsigned x, y; /* in units of 1 / POSITION_ONE */
};

/* Coordinates are pixels of a picture of this size. */
struct canvas {
	unsigned width, height;
};

enum { GESTURES_MAX = 1000 };

/*
 * Reads an array of actions, as docs/protocol.md describes them, and adds their movements. pointer
 * is where it was, and then where it will be. Nothing is to be done if one of them is wrong: the
 * error says which.
 */
int gestures_plan(const json_t *actions, const struct canvas *of, struct pointer *pointer,
	struct steps *ret, struct err *e);

/* Adds the movements by which every key and button goes up that goes down in these. */
int steps_release(const struct steps *done, struct steps *ret, struct err *e);

/* Where the pointer is, in pixels of the canvas. */
unsigned canvas_x(const struct canvas *of, const struct pointer *p);
unsigned canvas_y(const struct canvas *of, const struct pointer *p);
