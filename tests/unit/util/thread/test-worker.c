#include "util/thread/worker.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"

enum { MANY = 100, WAIT_MS = 60000 };

static atomic_int last_thread, done;
static pthread_barrier_t all_there;

static void note_thread(void *arg)
{
	atomic_store(&last_thread, (int)syscall(SYS_gettid));
	sem_post(arg);
}

static void meet(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&all_there);
	atomic_fetch_add(&done, 1);
}

static int thread_of_next(void)
{
	struct err e;
	sem_t ended;

	sem_init(&ended, 0, 0);
	if (worker_run(note_thread, &ended, &e) < 0)
		return -1;
	sem_wait(&ended);
	return atomic_load(&last_thread);
}

/* A thread that has just done its work needs a moment until it can be had again. */
static bool comes_again(int thread)
{
	for (int ms = 0; ms < WAIT_MS; ms++) {
		usleep(1000);
		if (thread_of_next() == thread)
			return true;
	}
	return false;
}

static bool run_many(void)
{
	struct err e;
	bool good = true;

	pthread_barrier_init(&all_there, NULL, MANY + 1);
	atomic_store(&done, 0);
	for (int i = 0; i < MANY; i++)
		good &= worker_run(meet, NULL, &e) == 0;
	pthread_barrier_wait(&all_there);
	for (int ms = 0; ms < WAIT_MS && atomic_load(&done) < MANY; ms++)
		usleep(1000);
	return good && atomic_load(&done) == MANY;
}

int main(void)
{
	int first = thread_of_next();

	tap_ok(first > 0 && first != (int)syscall(SYS_gettid), "work is done by another thread");
	tap_ok(comes_again(first), "which waits for more");
	tap_ok(run_many(), "what runs at the same time has a thread each");
	tap_ok(run_many(), "and again, with some that waited and some that are new");
	return tap_done();
}
