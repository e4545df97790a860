/* lock.h - mutex guards. Locks are leaves: held over memory only, never while waiting for anything.
 */
#pragma once

#include <pthread.h>

static inline pthread_mutex_t *lock_take(pthread_mutex_t *mu)
{
	pthread_mutex_lock(mu);
	return mu;
}

static inline void auto_unlockp(pthread_mutex_t **mu)
{
	if (*mu)
		pthread_mutex_unlock(*mu);
}

#define auto_unlock __attribute__((cleanup(auto_unlockp), unused))
