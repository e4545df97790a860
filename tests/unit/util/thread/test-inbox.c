#include "util/thread/inbox.h"

#include <pthread.h>

#include "tap.h"
#include "scratch.h"

static bool rings(struct inbox *in)
{
	struct pollfd p = {.fd = inbox_fd(in), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static struct bytes text(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static void test_order(void)
{
	auto_inbox struct inbox *in = NULL;
	struct message l = {0};
	struct err e;

	OK(inbox_new(10000, &in, &e) == 0 && !rings(in));
	OK(inbox_take(in, &l, &e) == 0);
	OK(inbox_put(in, 1, 10, 20, text("one"), &e) == 0 && rings(in));
	OK(inbox_put(in, 2, 0, 0, (struct bytes){0}, &e) == 0);
	OK(inbox_take(in, &l, &e) == 1 && l.type == 1 && l.a == 10 && l.b == 20);
	OK(l.data.len == 3 && memcmp(buf_data(&l.data), "one", 3) == 0);
	buf_free(&l.data);
	OK(rings(in));
	OK(inbox_take(in, &l, &e) == 1 && l.type == 2 && l.data.len == 0);
	OK(!rings(in) && inbox_take(in, &l, &e) == 0);
}

static void test_limit(void)
{
	auto_inbox struct inbox *in = NULL;
	static const uint8_t data[600];
	struct message l = {0};
	unsigned empties = 0;
	struct err e;

	OK(inbox_new(1000, &in, &e) == 0);
	OK(inbox_put(in, 0, 0, 0, (struct bytes){data, 600}, &e) == 0);
	OK(inbox_put(in, 0, 0, 0, (struct bytes){data, 600}, &e) < 0 && e.kind == ERR_LIMIT);
	OK(inbox_take(in, &l, &e) == 1);
	buf_free(&l.data);
	OK(inbox_put(in, 0, 0, 0, (struct bytes){data, 600}, &e) == 0);
	/* Empty messages count against the limit, too. */
	while (empties < 1000 && inbox_put(in, 0, 0, 0, (struct bytes){0}, &e) == 0)
		empties++;
	OK(empties > 0 && empties < 20 && e.kind == ERR_LIMIT);
}

static void test_close(void)
{
	auto_inbox struct inbox *in = NULL;
	struct err why, other, e;
	struct message l = {0};

	err_set(&why, ERR_UNAVAILABLE, "gone fishing");
	err_set(&other, ERR_BACKEND, "too late");
	OK(inbox_new(1000, &in, &e) == 0);
	OK(inbox_put(in, 5, 0, 0, text("last"), &e) == 0);
	inbox_close(in, &why);
	inbox_close(in, &other); /* the first reason counts */
	OK(inbox_put(in, 6, 0, 0, text("after"), &e) < 0 && e.kind == ERR_UNAVAILABLE);
	STR_IS(e.msg, "gone fishing");
	OK(rings(in) && inbox_take(in, &l, &e) == 1 && l.type == 5);
	buf_free(&l.data);
	for (int i = 0; i < 2; i++) {
		OK(rings(in));
		OK(inbox_take(in, &l, &e) == -1 && e.kind == ERR_UNAVAILABLE);
		STR_IS(e.msg, "gone fishing");
	}
}

enum { PUTTERS = 4, MESSAGES = 2000 };

static void *put_many(void *arg)
{
	struct inbox *in = arg;
	struct op op = op_for_cleanup(60);
	struct err e;

	for (uint64_t i = 0; i < MESSAGES; i++)
		while (inbox_put(in, 0, i, 0, (struct bytes){(uint8_t *)&i, sizeof(i)}, &e) < 0)
			if (op_pause(&op, 0.001, &e) < 0)
				return NULL;
	return NULL;
}

/* No message is lost and no wakeup is missed, however the threads interleave. */
static void test_threads(void)
{
	auto_inbox struct inbox *in = NULL;
	struct op op = op_for_cleanup(60);
	uint64_t sum = 0, want = (uint64_t)PUTTERS * MESSAGES * (MESSAGES - 1) / 2;
	pthread_t threads[PUTTERS];
	unsigned count = 0;
	struct message l;
	struct err e;

	OK(inbox_new(4000, &in, &e) == 0);
	for (int i = 0; i < PUTTERS; i++)
		pthread_create(&threads[i], NULL, put_many, in);
	while (count < PUTTERS * MESSAGES) {
		if (inbox_take(in, &l, &e) == 0) {
			if (op_wait_fd(&op, inbox_fd(in), POLLIN, &e) < 0)
				break;
			continue;
		}
		sum += l.a;
		count++;
		buf_free(&l.data);
	}
	for (int i = 0; i < PUTTERS; i++)
		pthread_join(threads[i], NULL);
	OK(count == PUTTERS * MESSAGES && sum == want);
}

int main(void)
{
	test_order();
	test_limit();
	test_close();
	test_threads();
	return tap_done();
}
