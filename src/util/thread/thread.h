/* thread.h - starting a thread, and waiting for its end. Any thread. */
#pragma once

#include <pthread.h>

#include "util/err.h"

/* name: for ps and debuggers, at most 15 characters; in the table of ARCHITECTURE.md. NULL: the
 * thread names itself. */
int thread_start(
	pthread_t *ret, const char *name, void *(*run)(void *arg), void *arg, struct err *e);
/* Waits for its end, which cannot be cancelled: whoever joins a thread ends its work first. */
void thread_join(pthread_t thread);
