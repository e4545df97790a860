#include "util/thread/slots.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tap.h"

static struct slots slots;
static struct op patient;
static atomic_int came;

struct taker {
	pthread_t thread;
	unsigned limit;
};

static void *take(void *arg)
{
	struct taker *t = arg;
	struct err e;

	if (slots_take(&slots, &patient, t->limit, &e) == 0)
		atomic_fetch_add(&came, 1);
	return NULL;
}

static bool queue_is(unsigned n)
{
	unsigned found = 0;

	lock_take(&slots.mu);
	/* struct slots_waiter is private to slots.c, so this counts only up to 2 */
	found = slots.first == NULL ? 0 : slots.first == slots.last ? 1 : 2;
	lock_give(&slots.mu);
	return found >= n;
}

static void start(struct taker *t, unsigned limit)
{
	*t = (struct taker){.limit = limit};
	pthread_create(&t->thread, NULL, take, t);
}

static void await_queue(unsigned n)
{
	struct err e;

	while (!queue_is(n))
		op_pause(&patient, 0.005, &e);
}

static void await_came(int n)
{
	struct err e;

	while (atomic_load(&came) < n)
		op_pause(&patient, 0.005, &e);
}

int main(void)
{
	struct op hurry;
	struct taker a, b;
	struct err e;

	op_init(&patient, "test", 0, &e);
	slots_init(&slots);
	OK(slots_take(&slots, &patient, 2, &e) == 0);
	OK(slots_take(&slots, &patient, 2, &e) == 0);
	hurry = op_within(&patient, 0.02);
	OK(!slots_try(&slots, 2));
	OK(slots_take(&slots, &hurry, 2, &e) < 0 && e.kind == ERR_TIMEOUT);
	hurry = op_within(&patient, 0.02);
	OK(slots_take(&slots, &hurry, 3, &e) == 0); /* a larger limit lets it in */
	slots_give(&slots);

	/* The first in the queue takes a limit of 1; later ones must not overtake it. */
	start(&a, 1);
	await_queue(1);
	start(&b, 8);
	await_queue(2);
	slots_give(&slots);
	OK(atomic_load(&came) == 0);
	slots_give(&slots);
	await_came(2);
	OK(slots.taken == 2); /* both got in after the first one */
	pthread_join(a.thread, NULL);
	pthread_join(b.thread, NULL);

	/* A waiter that gives up does not hold up the others. */
	slots_give(&slots);
	start(&b, 2);
	await_came(3);
	pthread_join(b.thread, NULL);
	hurry = op_within(&patient, 0.02);
	OK(slots_take(&slots, &hurry, 1, &e) < 0);
	slots_give(&slots);
	OK(slots_take(&slots, &patient, 2, &e) == 0);
	OK(slots.taken == 2);
	op_done(&patient);
	slots_done(&slots);
	return tap_done();
}
