/*
 * turn.h - lets one thread at a time do work that may block, first come first served. Waiting for a
 * turn ends with the op; a lock must never be held over such work. Inline only; any thread.
 */
#pragma once

#include "util/thread/slots.h"

struct turn {
	struct slots one;
};

static inline void turn_init(struct turn *t)
{
	slots_init(&t->one);
}

static inline void turn_done(struct turn *t)
{
	slots_done(&t->one);
}

static inline int turn_take(struct turn *t, const struct op *op, struct err *e)
{
	return slots_take(&t->one, op, 1, e);
}

/* turn_take; after a second, op's progress says what is waited for. */
static inline int turn_take_saying(
	struct turn *t, const struct op *op, const char *what, struct err *e)
{
	struct op part = op_within(op, 1.0);

	if (turn_take(t, &part, e) == 0)
		return 0;
	if (e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
		return -1;
	op_progress(op, 0, 0, "waiting for %s", what);
	return turn_take(t, op, e);
}

static inline void turn_give(struct turn *t)
{
	slots_give(&t->one);
}

/* auto_turn struct turn *held = NULL; if (turn_take(t, op, e) < 0) return -1; held = t; */
static inline void auto_turnp(struct turn **t)
{
	if (*t)
		turn_give(*t);
}
#define auto_turn __attribute__((cleanup(auto_turnp), unused))
