#include "util/worker.h"

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "util/lock.h"

enum {
	STACK = 256 * 1024,
	IDLE_MAX = 8,
	IDLE_SECONDS = 10,
};

struct worker {
	void (*work)(void *arg);
	void *arg;
	sem_t more; /* there is work again */
	struct worker *next;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct worker *idle; /* who came last goes first: the others may end */
static unsigned n_idle;

static struct worker *take_idle(void)
{
	auto_unlock pthread_mutex_t *held = lock_take(&mu);
	struct worker *w = idle;

	if (w) {
		idle = w->next;
		n_idle--;
	}
	return w;
}

/* False: enough of them wait already. */
static bool become_idle(struct worker *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&mu);

	if (n_idle == IDLE_MAX)
		return false;
	w->next = idle;
	idle = w;
	n_idle++;
	return true;
}

/* False: somebody has taken it, and work is on its way. */
static bool stop_being_idle(struct worker *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&mu);

	for (struct worker **at = &idle; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			n_idle--;
			return true;
		}
	return false;
}

/* False: there was none for long enough. */
static bool wait_for_more(struct worker *w)
{
	struct timespec until;

	/* If this clock jumps, a thread ends early or late: no harm. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_SECONDS;
	while (sem_timedwait(&w->more, &until) < 0)
		if (errno == ETIMEDOUT && stop_being_idle(w))
			return false;
	return true;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	do
		w->work(w->arg);
	while (become_idle(w) && wait_for_more(w));
	sem_destroy(&w->more);
	free(w);
	return NULL;
}

static int worker_new(struct worker *w)
{
	pthread_attr_t attr;
	pthread_t thread;
	int error;

	sem_init(&w->more, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, worker_main, w);
	pthread_attr_destroy(&attr);
	return error;
}

int worker_run(void (*work)(void *arg), void *arg)
{
	struct worker *w = take_idle();
	int error;

	if (w) {
		w->work = work;
		w->arg = arg;
		sem_post(&w->more);
		return 0;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return ENOMEM;
	w->work = work;
	w->arg = arg;
	error = worker_new(w);
	if (error) {
		sem_destroy(&w->more);
		free(w);
	}
	return error;
}
