#include "util/thread/op.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "util/thread/lock.h"

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t deadline_in(double timeout_s)
{
	if (!(timeout_s > 0) || timeout_s > 1e9)
		return OP_NO_DEADLINE;
	return now_ns() + (int64_t)(timeout_s * 1e9);
}

int op_init(struct op *op, const char *id, double timeout_s, struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return err_sys(e, errno, "eventfd");
	*op = (struct op){.deadline_ns = deadline_in(timeout_s), .cancel_fd = fd};
	snprintf(op->id, sizeof(op->id), "%s", id);
	return 0;
}

void op_done(struct op *op)
{
	if (op->cancel_fd >= 0)
		close(op->cancel_fd);
	op->cancel_fd = -1;
}

void op_cancel(struct op *op)
{
	uint64_t one = 1;

	/* This fails only when the counter is full, after far more cancels than there can be. */
	if (write(op->cancel_fd, &one, sizeof(one)) < 0)
		return;
}

bool op_cancelled(const struct op *op)
{
	struct pollfd p = {.fd = op->cancel_fd, .events = POLLIN};

	return op->cancel_fd >= 0 && poll(&p, 1, 0) > 0;
}

static int fail_timeout(struct err *e)
{
	return err_set(e, ERR_TIMEOUT, "timed out");
}

static int fail_cancelled(struct err *e)
{
	return err_set(e, ERR_CANCELLED, "cancelled");
}

int op_check(const struct op *op, struct err *e)
{
	if (op_cancelled(op))
		return fail_cancelled(e);
	if (op->deadline_ns != OP_NO_DEADLINE && now_ns() >= op->deadline_ns)
		return fail_timeout(e);
	return 0;
}

struct op op_within(const struct op *op, double timeout_s)
{
	struct op part = *op;
	int64_t deadline = deadline_in(timeout_s);

	if (deadline < part.deadline_ns)
		part.deadline_ns = deadline;
	return part;
}

struct op op_for_cleanup(double timeout_s)
{
	return (struct op){.deadline_ns = deadline_in(timeout_s), .cancel_fd = -1, .id = "cleanup"};
}

/* Milliseconds until the deadline for poll(2), rounded up; -1 for none. */
static int poll_timeout(int64_t deadline_ns)
{
	int64_t left;

	if (deadline_ns == OP_NO_DEADLINE)
		return -1;
	left = deadline_ns - now_ns();
	if (left <= 0)
		return 0;
	left = (left + 999999) / 1000000;
	return left > 3600000 ? 3600000 : (int)left;
}

/* 1: something is ready; 0: the deadline has passed; -1: cancelled or a bug. */
static int wait_until(
	const struct op *op, int64_t deadline_ns, struct pollfd *fds, unsigned n, struct err *e)
{
	struct pollfd all[OP_FDS_MAX + 1];

	lock_check_wait();
	if (n > OP_FDS_MAX)
		return err_set(e, ERR_INTERNAL, "waiting for %u fds", n);
	for (unsigned i = 0; i < n; i++)
		all[i] = fds[i];
	all[n] = (struct pollfd){.fd = op->cancel_fd, .events = POLLIN};
	for (;;) {
		int timeout = poll_timeout(deadline_ns);
		int ready = poll(all, n + 1, timeout);

		if (ready < 0 && errno != EINTR)
			return err_sys(e, errno, "poll");
		if (ready > 0 && all[n].revents)
			return fail_cancelled(e);
		/* The deadline counts even when an fd is ready: a peer that never pauses must not
		 * outlast it. */
		if (ready >= 0 && deadline_ns != OP_NO_DEADLINE && now_ns() >= deadline_ns)
			return 0;
		if (ready > 0) {
			for (unsigned i = 0; i < n; i++)
				fds[i].revents = all[i].revents;
			return 1;
		}
	}
}

int op_wait_fds(const struct op *op, struct pollfd *fds, unsigned n, struct err *e)
{
	int got = wait_until(op, op->deadline_ns, fds, n, e);

	if (got < 0)
		return -1;
	return got ? 0 : fail_timeout(e);
}

int op_wait_fd(const struct op *op, int fd, short events, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = events};

	return op_wait_fds(op, &p, 1, e);
}

int op_pause(const struct op *op, double seconds, struct err *e)
{
	int64_t until = seconds > 0 ? deadline_in(seconds) : now_ns();

	if (until > op->deadline_ns)
		until = op->deadline_ns;
	if (wait_until(op, until, NULL, 0, e) < 0)
		return -1;
	return op_check(op, e);
}

void op_progress(const struct op *op, uint64_t done, uint64_t total, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!op->on_progress)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	op->on_progress(op->progress_arg, text, done, total);
}
