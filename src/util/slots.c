#include "util/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/lock.h"

struct slots_waiter { /* on the stack of whoever waits */
	unsigned limit;
	int fd; /* rung when it is in */
	bool in;
	struct slots_waiter *next;
};

void slots_init(struct slots *s)
{
	*s = (struct slots){0};
	pthread_mutex_init(&s->mu, NULL);
}

void slots_done(struct slots *s)
{
	pthread_mutex_destroy(&s->mu);
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

static void enqueue(struct slots *s, struct slots_waiter *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&s->mu);

	if (s->last)
		s->last->next = w;
	else
		s->first = w;
	s->last = w;
	let_in_locked(s);
}

/* Whether it was in after all. */
static bool withdraw(struct slots *s, struct slots_waiter *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&s->mu);
	struct slots_waiter *before = NULL;

	if (w->in)
		return true;
	for (struct slots_waiter *at = s->first; at != w; at = at->next)
		before = at;
	*(before ? &before->next : &s->first) = w->next;
	if (s->last == w)
		s->last = before;
	let_in_locked(s); /* it may have been the one that held up the others */
	return false;
}

int slots_take(struct slots *s, const struct op *op, unsigned limit, struct err *e)
{
	auto_fd int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct slots_waiter w = {.limit = limit ? limit : 1, .fd = fd};

	if (fd < 0)
		return err_sys(e, errno, "eventfd");
	enqueue(s, &w);
	if (op_wait_fd(op, fd, POLLIN, e) == 0)
		return 0;
	if (withdraw(s, &w))
		slots_give(s);
	return -1;
}

void slots_give(struct slots *s)
{
	auto_unlock pthread_mutex_t *held = lock_take(&s->mu);

	s->taken--;
	let_in_locked(s);
}
