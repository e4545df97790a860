#include "util/thread/turn.h"

#include <pthread.h>

#include "tap.h"
#include "scratch.h"

static struct turn turn;
static long shared; /* only changed while holding the turn, which the thread sanitizer checks */

static int work(const struct op *op, struct err *e)
{
	auto_turn struct turn *held = NULL;

	if (turn_take(&turn, op, e) < 0)
		return -1;
	held = &turn;
	shared++;
	return 0;
}

static void *worker(void *arg)
{
	struct op op = op_for_cleanup(60);
	struct err e;

	for (int i = 0; i < 2000; i++)
		if (work(&op, &e) < 0)
			*(bool *)arg = true;
	return NULL;
}

static void test_one_at_a_time(void)
{
	pthread_t threads[4];
	bool failed[4] = {false};

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, worker, &failed[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	OK(!failed[0] && !failed[1] && !failed[2] && !failed[3]);
	OK(shared == 8000);
}

static void test_waiting_ends(void)
{
	struct op op = op_for_cleanup(10), brief = op_for_cleanup(0.05), cancelled;
	struct err e;

	OK(turn_take(&turn, &op, &e) == 0);
	OK(turn_take(&turn, &brief, &e) < 0 && e.kind == ERR_TIMEOUT);
	OK(op_init(&cancelled, "t", 10, &e) == 0);
	op_cancel(&cancelled);
	OK(turn_take(&turn, &cancelled, &e) < 0 && e.kind == ERR_CANCELLED);
	turn_give(&turn);
	OK(turn_take(&turn, &op, &e) == 0); /* the thread that gave up did not take the turn */
	turn_give(&turn);
	op_done(&cancelled);
}

int main(void)
{

	turn_init(&turn);
	test_one_at_a_time();
	test_waiting_ends();
	turn_done(&turn);
	return tap_done();
}
