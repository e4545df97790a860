#include "util/thread/lock.h"

#include <stdio.h>
#include <stdlib.h>

void lock_init(struct lock *l, const char *name, enum lock_level level)
{
	*l = (struct lock)LOCK_INIT(name, level);
}

void lock_done(struct lock *l)
{
	pthread_mutex_destroy(&l->mu);
}

#ifdef CHECK_LOCKS

enum { LEVELS = LOCK_LEAF + 1 };

static _Thread_local const struct lock *held[LEVELS]; /* by this thread: at most one of a level */

static const struct lock *innermost(void)
{
	for (unsigned i = LEVELS; i-- > 0;)
		if (held[i])
			return held[i];
	return NULL;
}

static void check_take(const struct lock *l)
{
	const struct lock *in = innermost();

	if (in && in->level >= l->level) {
		fprintf(stderr, "lock %s must not be taken while %s is held\n", l->name, in->name);
		abort();
	}
	held[l->level] = l;
}

static void check_give(const struct lock *l)
{
	if (held[l->level] != l) {
		fprintf(stderr, "lock %s is given back by a thread that does not hold it\n",
			l->name);
		abort();
	}
	held[l->level] = NULL;
}

void lock_check_wait(void)
{
	const struct lock *in = innermost();

	if (in) {
		fprintf(stderr, "nothing must be waited for while lock %s is held\n", in->name);
		abort();
	}
}

#else

static void check_take(const struct lock *l)
{
	(void)l;
}

static void check_give(const struct lock *l)
{
	(void)l;
}

void lock_check_wait(void)
{
}

#endif

struct lock *lock_take(struct lock *l)
{
	check_take(l);
	pthread_mutex_lock(&l->mu);
	return l;
}

void lock_give(struct lock *l)
{
	check_give(l);
	pthread_mutex_unlock(&l->mu);
}
