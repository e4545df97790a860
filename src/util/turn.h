/*
 * turn.h - one at a time, for work that may block: like a mutex, but waiting for it ends with the
 * op. For what a mutex must never be held over.
 */
#pragma once

#include "util/op.h"

struct turn {
	int fd; /* an eventfd semaphore: readable while nobody has the turn */
};

int turn_init(struct turn *t, struct err *e);
void turn_done(struct turn *t);
int turn_take(struct turn *t, const struct op *op, struct err *e);
void turn_give(struct turn *t);

/* auto_turn struct turn *held = NULL; if (turn_take(t, op, e) < 0) return -1; held = t; */
static inline void auto_turnp(struct turn **t)
{
	if (*t)
		turn_give(*t);
}
#define auto_turn __attribute__((cleanup(auto_turnp), unused))
