/*
 * turn.h - one at a time, for work that may block: like a mutex, but waiting for it ends with the
 * op. For what a mutex must never be held over. First come, first served.
 */
#pragma once

#include "util/slots.h"

struct turn {
	struct slots one;
};

static inline int turn_init(struct turn *t, struct err *e)
{
	(void)e;
	slots_init(&t->one);
	return 0;
}

static inline void turn_done(struct turn *t)
{
	slots_done(&t->one);
}

static inline int turn_take(struct turn *t, const struct op *op, struct err *e)
{
	return slots_take(&t->one, op, 1, e);
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
