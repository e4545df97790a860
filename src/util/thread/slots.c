#include "util/thread/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/thread/lock.h"

struct slots_waiter { /* on the stack of the thread that waits */
	unsigned limit;
	int fd;  /* eventfd: rung when the thread has its slot */
	bool in; /* it has its slot */
	struct slots_waiter *next;
};

void slots_init(struct slots *s)
{
	*s = (struct slots){0};
	lock_init(&s->mu, "slots.mu", LOCK_LEAF);
}

void slots_done(struct slots *s)
{
	lock_done(&s->mu);
}

static void let_in_locked(struct slots *s)
{
	const uint64_t one = 1;

	while (s->first && s->taken < s->first->limit) {
		struct slots_waiter *w = s->first;

		s->first = w->next;
		if (!s->first)
			s->last = NULL;
		s->taken++;
		w->in = true;
		if (write(w->fd, &one, sizeof(one)) < 0)
			abort(); /* an eventfd with room: cannot fail */
	}
}

/* True if a slot is free and nobody waits: then the caller needs no eventfd. */
bool slots_try(struct slots *s, unsigned limit)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	if (s->first || s->taken >= limit)
		return false;
	s->taken++;
	return true;
}

static void enqueue(struct slots *s, struct slots_waiter *w)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	if (s->last)
		s->last->next = w;
	else
		s->first = w;
	s->last = w;
	let_in_locked(s);
}

/* Takes a waiter off the queue. True: it had got its slot after all. */
static bool withdraw(struct slots *s, struct slots_waiter *w)
{
	auto_unlock struct lock *held = lock_take(&s->mu);
	struct slots_waiter *before = NULL;

	if (w->in)
		return true;
	for (struct slots_waiter *at = s->first; at != w; at = at->next)
		before = at;
	*(before ? &before->next : &s->first) = w->next;
	if (s->last == w)
		s->last = before;
	let_in_locked(s); /* a waiter with a lower limit holds up those behind it */
	return false;
}

int slots_take(struct slots *s, const struct op *op, unsigned limit, struct err *e)
{
	auto_fd int fd = -1;
	struct slots_waiter w = {.limit = limit ? limit : 1};
	int rc;

	lock_check_wait();
	if (slots_try(s, w.limit))
		return 0;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "eventfd");
	w.fd = fd;
	enqueue(s, &w);
	rc = op_wait_fd(op, fd, POLLIN, e);
	/* This takes the lock, so that a thread that has just given us our slot no longer uses w.
	 */
	if (withdraw(s, &w) && rc < 0)
		slots_give(s);
	return rc;
}

void slots_give(struct slots *s)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	s->taken--;
	let_in_locked(s);
}
