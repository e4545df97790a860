/* The threads' op ends with the caller's, and with the first failure. */
#include "util/thread/parallel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/thread/lock.h"
#include "util/thread/thread.h"

struct parallel {
	int (*one)(void *arg, size_t i, const struct op *op, struct err *e);
	void *arg;
	unsigned at_once;
	struct op op;
	int done_fd; /* eventfd: how many threads have ended */
	struct lock mu;
	size_t next, n;
	bool failed;
	struct err first;
};

static bool take_next(struct parallel *t, size_t *ret)
{
	auto_unlock struct lock *held = lock_take(&t->mu);

	if (t->failed || t->next == t->n)
		return false;
	*ret = t->next++;
	return true;
}

static void note_failure(struct parallel *t, const struct err *e)
{
	auto_unlock struct lock *held = lock_take(&t->mu);

	if (!t->failed)
		t->first = *e;
	t->failed = true;
}

static void *work(void *arg)
{
	struct parallel *t = arg;
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

/* Waits for the threads. When the caller's op ends, it cancels them and goes on waiting. */
static int watch(struct parallel *t, const struct op *op, size_t running, struct err *e)
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

static int run(struct parallel *t, const struct op *op, struct err *e)
{
	size_t n = t->n < t->at_once ? t->n : t->at_once, started = 0;
	pthread_t threads[PARALLEL_MAX];
	int rc;

	while (started < n && thread_start(&threads[started], "parallel", work, t, e) == 0)
		started++;
	if (!started)
		return -1;
	rc = watch(t, op, started, e);
	for (size_t i = 0; i < started; i++)
		thread_join(threads[i]);
	if (rc < 0)
		return -1;
	if (t->failed) {
		*e = t->first;
		return -1;
	}
	return 0;
}

int parallel_run(const struct op *op, unsigned at_once, size_t n,
	int (*one)(void *arg, size_t i, const struct op *op, struct err *e), void *arg,
	struct err *e)
{
	struct parallel t = {.one = one,
		.arg = arg,
		.n = n,
		.at_once = at_once < PARALLEL_MAX ? at_once : PARALLEL_MAX};
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
	lock_init(&t.mu, "parallel.mu", LOCK_LEAF);
	rc = run(&t, op, e);
	lock_done(&t.mu);
	close(t.done_fd);
	op_done(&t.op);
	return rc;
}
