#include "util/thread/op.h"

#include <pthread.h>

#include "tap.h"
#include "scratch.h"

static void test_deadline(void)
{
	int64_t start = now_ns();
	int fds[2];
	struct op op;
	struct err e;

	OK(pipe(fds) == 0 && op_init(&op, "t", 0.05, &e) == 0);
	OK(op_check(&op, &e) == 0);
	OK(op_wait_fd(&op, fds[0], POLLIN, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(seconds_since(start) >= 0.05);
	OK(op_check(&op, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(op_pause(&op, 10, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(seconds_since(start) < 5);
	op_done(&op);
	close(fds[0]);
	close(fds[1]);
}

static void test_no_deadline(void)
{
	static const double forever[] = {0, -1, 1e12, 0.0 / 0.0};
	struct op op;
	struct err e;

	for (unsigned i = 0; i < ARRAY_LEN(forever); i++) {
		OK(op_init(&op, "t", forever[i], &e) == 0 && op.deadline_ns == OP_NO_DEADLINE);
		OK(op_check(&op, &e) == 0 && op_pause(&op, 0.01, &e) == 0);
		op_done(&op);
	}
}

/* A peer that always has more to send must not carry an operation past its deadline. */
static void test_ready_is_not_endless(void)
{
	struct op op = op_for_cleanup(0.05);
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	int64_t start = now_ns();
	struct err e;
	int rc;

	while ((rc = op_wait_fd(&op, zero, POLLIN, &e)) == 0 && seconds_since(start) < 20)
		;
	OK(rc < 0 && e.kind == ERR_TIMEOUT);
	close(zero);
}

static void *cancel_soon(void *arg)
{
	struct op delay = op_for_cleanup(10);
	struct err e;

	op_pause(&delay, 0.05, &e);
	op_cancel(arg);
	return NULL;
}

static void test_cancel(void)
{
	int64_t start = now_ns();
	pthread_t thread;
	int fds[2];
	struct op op;
	struct err e;

	OK(pipe(fds) == 0 && op_init(&op, "t", 60, &e) == 0 && !op_cancelled(&op));
	OK(pthread_create(&thread, NULL, cancel_soon, &op) == 0);
	OK(op_wait_fd(&op, fds[0], POLLIN, &e) < 0 && e.kind == ERR_CANCELLED);
	OK(seconds_since(start) < 30);
	pthread_join(thread, NULL);
	OK(op_cancelled(&op));
	OK(op_check(&op, &e) < 0 && e.kind == ERR_CANCELLED);
	OK(op_pause(&op, 30, &e) < 0 && e.kind == ERR_CANCELLED);
	/* It stays cancelled, even for an fd that is ready. */
	OK(op_wait_fd(&op, fds[1], POLLOUT, &e) < 0 && e.kind == ERR_CANCELLED);
	op_cancel(&op);
	OK(op_cancelled(&op));
	op_done(&op);
	op_done(&op);
	close(fds[0]);
	close(fds[1]);
}

static void test_parts(void)
{
	struct op op, part, cleanup;
	struct err e;

	OK(op_init(&op, "whole", 10, &e) == 0);
	part = op_within(&op, 1000);
	OK(part.deadline_ns == op.deadline_ns);
	part = op_within(&op, 1);
	OK(part.deadline_ns < op.deadline_ns && part.cancel_fd == op.cancel_fd);
	STR_IS(part.id, "whole");
	part = op_within(&op, 0);
	OK(part.deadline_ns == op.deadline_ns);
	op_cancel(&op);
	part = op_within(&op, 1);
	OK(op_cancelled(&part));
	cleanup = op_for_cleanup(1);
	OK(!op_cancelled(&cleanup) && op_check(&cleanup, &e) == 0);
	op_done(&op);
}

static void test_several(void)
{
	struct op op = op_for_cleanup(10);
	struct pollfd many[OP_FDS_MAX + 1] = {{.fd = -1}};
	int a[2], b[2];
	struct err e;

	OK(pipe(a) == 0 && pipe(b) == 0 && write(b[1], "x", 1) == 1);
	struct pollfd fds[] = {{.fd = a[0], .events = POLLIN}, {.fd = b[0], .events = POLLIN}};
	OK(op_wait_fds(&op, fds, 2, &e) == 0);
	OK(fds[0].revents == 0 && fds[1].revents == POLLIN);
	close(a[1]); /* hang-up counts as ready */
	OK(op_wait_fd(&op, a[0], POLLIN, &e) == 0);
	OK(op_wait_fds(&op, many, ARRAY_LEN(many), &e) < 0 && e.kind == ERR_INTERNAL);
	close(a[0]);
	close(b[0]);
	close(b[1]);
}

struct news {
	char text[300];
	uint64_t done, total;
};

static void hear(void *arg, const char *text, uint64_t done, uint64_t total)
{
	struct news *n = arg;

	snprintf(n->text, sizeof(n->text), "%s", text);
	n->done = done;
	n->total = total;
}

static void test_progress(void)
{
	struct op op = op_for_cleanup(1);
	struct news n = {0};

	op_progress(&op, 1, 2, "nobody listens");
	op.on_progress = hear;
	op.progress_arg = &n;
	op_progress(&op, 3, 9, "step %d", 4);
	STR_IS(n.text, "step 4");
	OK(n.done == 3 && n.total == 9);
}

int main(void)
{
	test_deadline();
	test_no_deadline();
	test_ready_is_not_endless();
	test_cancel();
	test_parts();
	test_several();
	test_progress();
	return tap_done();
}
