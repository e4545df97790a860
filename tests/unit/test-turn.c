#include "util/turn.h"

#include <pthread.h>

#include "tap.h"
#include "scratch.h"

static struct turn turn;
static long shared; /* only touched by who has the turn: the thread sanitizer watches */

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
	OK(turn_take(&turn, &op, &e) == 0); /* who gave up took nothing along */
	turn_give(&turn);
	op_done(&cancelled);
}

struct in_line {
	struct turn *turn;
	int *next, place; /* place: what *next was when the turn came */
};

static void *stand_in_line(void *arg)
{
	struct in_line *me = arg;
	struct op op = op_for_cleanup(60);
	struct err e;

	if (turn_take(me->turn, &op, &e) == 0) {
		me->place = (*me->next)++;
		turn_give(me->turn);
	}
	return NULL;
}

static bool somebody_waits(struct turn *t, struct turn_waiter *last_seen)
{
	struct turn_waiter *last;

	pthread_mutex_lock(&t->mu);
	last = t->last;
	pthread_mutex_unlock(&t->mu);
	return last && last != last_seen;
}

static void test_first_come_first_served(void)
{
	enum { N = 8 };
	struct op op = op_for_cleanup(60);
	struct turn few;
	struct in_line lines[N];
	pthread_t threads[N];
	struct turn_waiter *last = NULL;
	struct err e;
	int next = 0;
	bool in_order = true;

	OK(turn_init_places(&few, 2, &e) == 0);
	OK(turn_take(&few, &op, &e) == 0 && turn_take(&few, &op, &e) == 0);
	for (int i = 0; i < N; i++) {
		lines[i] = (struct in_line){.turn = &few, .next = &next, .place = -1};
		pthread_create(&threads[i], NULL, stand_in_line, &lines[i]);
		while (!somebody_waits(&few, last))
			op_pause(&op, 0.001, &e);
		pthread_mutex_lock(&few.mu);
		last = few.last;
		pthread_mutex_unlock(&few.mu);
	}
	turn_give(&few); /* one place: they come one after the other */
	for (int i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		in_order = in_order && lines[i].place == i;
	}
	OK(in_order);
	turn_give(&few);
	OK(few.free == 2);
	turn_done(&few);
}

int main(void)
{
	struct err e;

	OK(turn_init(&turn, &e) == 0);
	test_one_at_a_time();
	test_waiting_ends();
	test_first_come_first_served();
	turn_done(&turn);
	return tap_done();
}
