/*
 * slots.h - at most so many at once, first come first served. For work that blocks: waiting for a
 * slot ends with the op. Any thread.
 */
#pragma once

#include <pthread.h>

#include "util/op.h"

struct slots_waiter;

struct slots {
	pthread_mutex_t mu;
	unsigned taken;
	struct slots_waiter *first, *last;
};

void slots_init(struct slots *s);
void slots_done(struct slots *s);
/* Enters when fewer than limit have a slot and nobody who came earlier still waits. */
int slots_take(struct slots *s, const struct op *op, unsigned limit, struct err *e);
void slots_give(struct slots *s);
