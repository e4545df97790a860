/*
 * turn.h - one at a time, or a few, for work that may block: like a mutex, but waiting for it ends
 * with the op. For what a mutex must never be held over. First come, first served.
 */
#pragma once

#include <pthread.h>

#include "util/op.h"

struct turn {
	pthread_mutex_t mu;
	unsigned free; /* turns that nobody has; 0 while anybody waits */
	struct turn_waiter *first, *last;
};

int turn_init(struct turn *t, struct err *e);
/* For so many at a time. */
int turn_init_places(struct turn *t, unsigned places, struct err *e);
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
