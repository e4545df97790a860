#include "util/turn.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/lock.h"

/* On the stack of who waits. All but the bell is under the turn's lock. */
struct turn_waiter {
	int bell; /* eventfd: readable once the turn is ours */
	bool ours;
	struct turn_waiter *next;
};

int turn_init_places(struct turn *t, unsigned places, struct err *e)
{
	int rc = pthread_mutex_init(&t->mu, NULL);

	t->free = places;
	t->first = t->last = NULL;
	return rc ? err_sys(e, rc, "turn") : 0;
}

int turn_init(struct turn *t, struct err *e)
{
	return turn_init_places(t, 1, e);
}

void turn_done(struct turn *t)
{
	pthread_mutex_destroy(&t->mu);
}

/* True: the turn is the caller's at once. */
static bool take_or_queue(struct turn *t, struct turn_waiter *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&t->mu);

	if (t->free) {
		t->free--;
		return true;
	}
	if (w->bell < 0)
		return false;
	if (t->last)
		t->last->next = w;
	else
		t->first = w;
	t->last = w;
	return false;
}

static bool try_take(struct turn *t)
{
	struct turn_waiter nobody = {.bell = -1};

	return take_or_queue(t, &nobody);
}

/* False: the turn came, perhaps in this very moment. */
static bool leave_queue(struct turn *t, struct turn_waiter *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&t->mu);
	struct turn_waiter *before = NULL;

	if (w->ours)
		return false;
	for (struct turn_waiter *at = t->first; at != w; at = at->next)
		before = at;
	if (before)
		before->next = w->next;
	else
		t->first = w->next;
	if (t->last == w)
		t->last = before;
	return true;
}

int turn_take(struct turn *t, const struct op *op, struct err *e)
{
	auto_fd int bell = -1;
	struct turn_waiter w = {0};
	int rc;

	if (try_take(t))
		return 0;
	bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell < 0)
		return err_sys(e, errno, "eventfd");
	w.bell = bell;
	if (take_or_queue(t, &w))
		return 0;
	rc = op_wait_fd(op, bell, POLLIN, e);
	if (!leave_queue(t, &w) && rc < 0)
		turn_give(t); /* to the next: our operation has ended */
	return rc;
}

void turn_give(struct turn *t)
{
	auto_unlock pthread_mutex_t *held = lock_take(&t->mu);
	struct turn_waiter *w = t->first;
	uint64_t one = 1;

	if (!w) {
		t->free++;
		return;
	}
	t->first = w->next;
	if (!t->first)
		t->last = NULL;
	w->ours = true;
	/* Under the lock, which the waiter takes before it goes. */
	if (write(w->bell, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
}
