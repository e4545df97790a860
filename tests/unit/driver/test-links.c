#include "driver/ways.h"

#include <signal.h>
#include <stdatomic.h>

#include "line-guest.h"

/* A driver whose guests are lines to a scripted runner, or agents that do nothing. */
struct fake {
	struct ways ways;
	bool dead, broken, agents;
	atomic_uint opened, closed;
	struct peer peers[8];
};

static void free_agent(struct guest *g)
{
	free(g);
}

static const struct guest_ops agent_ops = {.name = "agent", .free = free_agent};

static int alive(void *arg, struct err *e)
{
	return ((struct fake *)arg)->dead ? err_set(e, ERR_UNAVAILABLE, "it was shut down") : 0;
}

static void greet_and_wait(struct peer *p)
{
	if (guest_hello(p))
		peer_drain(p);
}

static int open_one(
	void *arg, const struct op *op, struct guest **ret, void **ret_below, struct err *e)
{
	struct fake *f = arg;
	unsigned n = f->opened++;
	struct guest *g;
	int fd;

	if (f->broken)
		return err_set(e, ERR_UNAVAILABLE, "no route");
	*ret_below = f;
	if (f->agents) {
		g = calloc(1, sizeof(*g));
		g->ops = &agent_ops;
		*ret = g;
		return 0;
	}
	fd = peer_start(&f->peers[n], greet_and_wait, NULL);
	return line_open(op, fd, ret, e);
}

static void close_one(void *below)
{
	((struct fake *)below)->closed++;
}

static const struct ways_ops ops = {.alive = alive, .open = open_one, .close_below = close_one};

static void start(struct fake *f)
{
	struct err e;

	*f = (struct fake){0};
	OK(ways_init(&f->ways, &ops, f, &e) == 0);
}

static void finish(struct fake *f)
{
	ways_done(&f->ways);
	for (unsigned i = 0; i < ARRAY_LEN(f->peers); i++)
		if (f->peers[i].thread)
			peer_join(&f->peers[i]);
}

static void test_shared(void)
{
	struct op op = op_for_cleanup(60);
	struct guest *one, *two;
	struct fake f;
	struct err e;

	start(&f);
	STR_IS(ways_name(&f.ways), "");
	OK(ways_take(&f.ways, &op, &one, &e) == 0);
	OK(ways_take(&f.ways, &op, &two, &e) == 0);
	OK(one == two && f.opened == 1);
	OK(ways_below(&f.ways, one) == &f);
	STR_IS(ways_name(&f.ways), "runner");
	ways_give(&f.ways, one);
	ways_give(&f.ways, two);
	OK(f.closed == 0); /* it stays for the next */
	finish(&f);
	OK(f.closed == 1);
}

static void test_lost(void)
{
	struct op op = op_for_cleanup(60);
	struct guest *old, *new;
	struct fake f;
	struct err e;

	start(&f);
	OK(ways_take(&f.ways, &op, &old, &e) == 0);
	ways_lost(&f.ways, "the VM was reset");
	OK(line_failed(old) && f.closed == 0); /* somebody still has it */
	STR_IS(ways_name(&f.ways), "");
	OK(ways_take(&f.ways, &op, &new, &e) == 0);
	OK(new != old &&f.opened == 2);
	ways_give(&f.ways, old);
	OK(f.closed == 1);
	line_fail(new, "the runner was killed"); /* nobody tells us */
	ways_give(&f.ways, new);
	OK(ways_take(&f.ways, &op, &new, &e) == 0 && f.opened == 3 && f.closed == 2);
	ways_give(&f.ways, new);
	ways_close(&f.ways);
	OK(f.closed == 3);
	OK(ways_take(&f.ways, &op, &new, &e) == 0 && f.opened == 4);
	ways_give(&f.ways, new);
	finish(&f);
	OK(f.closed == 4);
}

static void test_an_agent_is_not_lost(void)
{
	struct op op = op_for_cleanup(60);
	struct guest *one, *two;
	struct fake f;
	struct err e;

	start(&f);
	f.agents = true;
	OK(ways_take(&f.ways, &op, &one, &e) == 0);
	STR_IS(ways_name(&f.ways), "agent");
	ways_lost(&f.ways, "the guest runner ended");
	OK(ways_take(&f.ways, &op, &two, &e) == 0 && one == two && f.opened == 1);
	ways_give(&f.ways, one);
	ways_give(&f.ways, two);
	finish(&f);
}

static void test_failures(void)
{
	struct op op = op_for_cleanup(60), brief = op_for_cleanup(0.05);
	struct guest *g;
	struct fake f;
	struct err e;

	start(&f);
	f.broken = true;
	OK(ways_take(&f.ways, &op, &g, &e) < 0);
	STR_IS(e.msg, "no route");
	f.broken = false;
	f.dead = true;
	OK(ways_take(&f.ways, &op, &g, &e) < 0);
	STR_IS(e.msg, "it was shut down");
	OK(f.opened == 1);
	f.dead = false;
	OK(turn_take(&f.ways.opening, &op, &e) == 0); /* somebody opens one, and takes his time */
	OK(ways_take(&f.ways, &brief, &g, &e) < 0 && e.kind == ERR_TIMEOUT);
	turn_give(&f.ways.opening);
	OK(ways_take(&f.ways, &op, &g, &e) == 0);
	ways_give(&f.ways, g);
	finish(&f);
	OK(f.closed == 1);
}

static void *take_and_give(void *arg)
{
	struct op op = op_for_cleanup(60);
	struct fake *f = arg;
	struct guest *g;
	struct err e;

	for (unsigned i = 0; i < 500; i++) {
		if (ways_take(&f->ways, &op, &g, &e) < 0)
			return f;
		ways_give(&f->ways, g);
	}
	return NULL;
}

static void test_many_at_once(void)
{
	pthread_t threads[4];
	void *failed = NULL;
	struct fake f;

	start(&f);
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, take_and_give, &f);
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++) {
		void *result;

		pthread_join(threads[i], &result);
		if (result)
			failed = result;
	}
	OK(!failed && f.opened == 1);
	finish(&f);
	OK(f.closed == 1);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_shared();
	test_lost();
	test_an_agent_is_not_lost();
	test_failures();
	test_many_at_once();
	return tap_done();
}
