#include "util/thread/worker.h"

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "util/thread/lock.h"
#include "util/thread/thread.h"

enum {
	IDLE_MAX = 8,
	IDLE_SECONDS = 10,
};

struct worker {
	void (*work)(void *arg);
	void *arg;
	sem_t more; /* posted when work and arg are set again */
	struct worker *next;
};

static struct lock idle_mu = LOCK_INIT("idle_mu", LOCK_LEAF);
static struct worker *idle; /* the last to come is the first to go, so that the others may end */
static unsigned n_idle;

static struct worker *take_idle(void)
{
	auto_unlock struct lock *held = lock_take(&idle_mu);
	struct worker *w = idle;

	if (w) {
		idle = w->next;
		n_idle--;
	}
	return w;
}

/* False: enough threads wait already. */
static bool become_idle(struct worker *w)
{
	auto_unlock struct lock *held = lock_take(&idle_mu);

	if (n_idle == IDLE_MAX)
		return false;
	w->next = idle;
	idle = w;
	n_idle++;
	return true;
}

/* False: worker_run has taken this thread, and work is on its way. */
static bool stop_being_idle(struct worker *w)
{
	auto_unlock struct lock *held = lock_take(&idle_mu);

	for (struct worker **at = &idle; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			n_idle--;
			return true;
		}
	return false;
}

/* False: no work has come for long enough. */
static bool wait_for_more(struct worker *w)
{
	struct timespec until;

	/* This clock may jump. Then a thread ends early or late, which does no harm. */
	lock_check_wait();
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

static int start_worker(void (*work)(void *arg), void *arg, struct err *e)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_t thread;

	if (!w)
		return err_oom(e);
	w->work = work;
	w->arg = arg;
	sem_init(&w->more, 0, 0);
	if (thread_start(&thread, NULL, worker_main, w, e) < 0) {
		sem_destroy(&w->more);
		free(w);
		return -1;
	}
	pthread_detach(thread);
	return 0;
}

int worker_run(void (*work)(void *arg), void *arg, struct err *e)
{
	struct worker *w = take_idle();

	if (!w)
		return start_worker(work, arg, e);
	w->work = work;
	w->arg = arg;
	sem_post(&w->more);
	return 0;
}
