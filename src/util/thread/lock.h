/*
 * lock.h - locks over memory, given back by scope. Any thread.
 *
 * The rule: a thread takes a lock only while every lock that it holds has a lower level, and waits
 * for nothing while it holds one. There are two levels: while an outer lock is held leaves may be
 * taken, while a leaf is held nothing. Work that waits takes a turn (turn.h) instead.
 *
 * Builds with a sanitizer check the rule (CHECK_LOCKS): a thread that breaks it ends the process,
 * and says which locks it was about.
 */
#pragma once

#include <pthread.h>

enum lock_level { LOCK_OUTER, LOCK_LEAF };

struct lock {
	pthread_mutex_t mu;
	const char *name; /* struct.member, as in the table in ARCHITECTURE.md */
	enum lock_level level;
};

#define LOCK_INIT(the_name, the_level)                                                             \
	{                                                                                          \
		.mu = PTHREAD_MUTEX_INITIALIZER, .name = (the_name), .level = (the_level)          \
	}

void lock_init(struct lock *l, const char *name, enum lock_level level);
void lock_done(struct lock *l);

/* auto_unlock struct lock *held = lock_take(&x->mu); */
struct lock *lock_take(struct lock *l);
void lock_give(struct lock *l);

static inline void auto_unlockp(struct lock **l)
{
	if (*l)
		lock_give(*l);
}
#define auto_unlock __attribute__((cleanup(auto_unlockp), unused))

/* For everything that waits, before it does: checks that the thread holds no lock. */
void lock_check_wait(void);
