/*
 * slots.h - lets at most so many threads do something at once, first come first served. The work
 * may block, and waiting for a slot ends with the op. Any thread.
 */
#pragma once

#include "util/thread/op.h"
#include "util/thread/lock.h"

struct slots_waiter;

struct slots {
	struct lock mu;
	unsigned taken;
	struct slots_waiter *first, *last;
};

void slots_init(struct slots *s);
void slots_done(struct slots *s);
/* Waits until fewer than limit slots are taken and nobody who came earlier waits. */
int slots_take(struct slots *s, const struct op *op, unsigned limit, struct err *e);
/* Takes one if that needs no waiting. */
bool slots_try(struct slots *s, unsigned limit);
void slots_give(struct slots *s);
