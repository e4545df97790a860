/*
 * Several things at once, for work that mostly waits for a server. Each has a thread; their ops end
 * with the caller's, and with the first failure.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/pve.h"
#include "util/auto.h"
#include "util/lock.h"

enum { AT_ONCE_MAX = 16 };

struct together {
	int (*one)(void *arg, size_t i, const struct op *op, struct err *e);
	void *arg;
	struct op op;
	int done_fd; /* a count of those that have ended */
	pthread_mutex_t mu;
	size_t next, n;
	bool failed;
	struct err first;
};

static bool take_next(struct together *t, size_t *ret)
{
	auto_unlock pthread_mutex_t *held = lock_take(&t->mu);

	if (t->failed || t->next == t->n)
		return false;
	*ret = t->next++;
	return true;
}

static void note_failure(struct together *t, const struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&t->mu);

	if (!t->failed)
		t->first = *e;
	t->failed = true;
}

static void *work(void *arg)
{
	struct together *t = arg;
	uint64_t one = 1;
	struct err e;
	size_t i;

	while (take_next(t, &i))
		if (t->one(t->arg, i, &t->op, &e) < 0) {
			note_failure(t, &e);
			op_cancel(&t->op);
		}
	if (write(t->done_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
	return NULL;
}

/* Waits for the workers; a caller that is cancelled or late passes that on, and waits on. */
static int watch(struct together *t, const struct op *op, size_t running, struct err *e)
{
	struct op patience = op_for_cleanup(0);
	const struct op *wait = op;
	int rc = 0;

	while (running) {
		uint64_t ended;

		if (op_wait_fd(wait, t->done_fd, POLLIN, rc < 0 ? &t->first : e) < 0) {
			if (wait == &patience)
				continue;
			rc = -1;
			op_cancel(&t->op);
			wait = &patience;
			continue;
		}
		if (read(t->done_fd, &ended, sizeof(ended)) == (ssize_t)sizeof(ended))
			running -= ended;
	}
	return rc;
}

static int run(struct together *t, const struct op *op, struct err *e)
{
	size_t n = t->n < AT_ONCE_MAX ? t->n : AT_ONCE_MAX, started = 0;
	pthread_t threads[AT_ONCE_MAX];
	int failed = 0, rc;

	for (; started < n && !failed; started++)
		failed = pthread_create(&threads[started], NULL, work, t);
	if (failed) {
		started--;
		if (!started)
			return err_sys(e, failed, "thread");
	}
	rc = watch(t, op, started, e);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (rc < 0)
		return -1;
	if (t->failed) {
		*e = t->first;
		return -1;
	}
	return 0;
}

int pve_together(const struct op *op, size_t n,
	int (*one)(void *arg, size_t i, const struct op *op, struct err *e), void *arg,
	struct err *e)
{
	struct together t = {.one = one, .arg = arg, .n = n};
	int rc;

	if (n == 0)
		return 0;
	if (n == 1)
		return one(arg, 0, op, e);
	if (op_init(&t.op, op->id, 0, e) < 0)
		return -1;
	t.op.on_progress = op->on_progress;
	t.op.progress_arg = op->progress_arg;
	t.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t.done_fd < 0) {
		op_done(&t.op);
		return err_sys(e, errno, "eventfd");
	}
	pthread_mutex_init(&t.mu, NULL);
	rc = run(&t, op, e);
	pthread_mutex_destroy(&t.mu);
	close(t.done_fd);
	op_done(&t.op);
	return rc;
}
