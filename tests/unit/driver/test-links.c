#include "driver/links.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "line-guest.h"

/* A driver whose guests are lines to a scripted runner, or agents that do nothing. */
struct fake {
	struct guest_links links;
	bool dead, broken, agents;
	int port;
	atomic_uint opened, closed;
	struct peer peers[8];
};

static void free_agent(struct guest *g)
{
	free(g);
}

static const struct guest_ops agent_ops = {.free = free_agent};

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
	return line_open(op, fd, 0, ret, e);
}

/* A runner that ends each command at once, whoever asks. */
static void answer_all(struct peer *p)
{
	struct wire_msg reply = {.type = WIRE_HELLO_REPLY, .version = WIRE_VERSION};
	struct got g;

	while (guest_get(p, &g)) {
		memcpy(reply.nonce, g.msg.nonce, WIRE_NONCE);
		if (g.msg.type == WIRE_HELLO)
			guest_put(p, reply, NULL, 0);
		else if (g.msg.type == WIRE_EXEC)
			guest_exit(p, g.msg.id, 0);
	}
}

/* All links are on one connection, as those over a VM's port are. */
static int open_on_port(
	void *arg, const struct op *op, struct guest **ret, void **ret_below, struct err *e)
{
	struct fake *f = arg;

	*ret_below = f;
	if (!f->opened++)
		f->port = peer_start(&f->peers[0], answer_all, NULL);
	auto_buf struct buf rest = {0};

	if (links_part(&f->links, op, "the runner ended", &rest, e) < 0)
		return -1;
	return line_open(op, dup(f->port), 0, ret, e);
}

static void close_one(void *below)
{
	((struct fake *)below)->closed++;
}

static const struct guest_links_ops ops = {
	.alive = alive, .open = open_one, .close_below = close_one};

static const struct guest_links_ops port_ops = {
	.alive = alive, .open = open_on_port, .close_below = close_one};

static void start(struct fake *f)
{

	*f = (struct fake){0};
	links_init(&f->links, &ops, f);
}

static void finish(struct fake *f)
{
	links_done(&f->links);
	if (f->port)
		close(f->port);
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
	STR_IS(links_name(&f.links), "");
	OK(links_take(&f.links, &op, &one, &e) == 0);
	OK(links_take(&f.links, &op, &two, &e) == 0);
	OK(one == two && f.opened == 1);
	OK(links_below(&f.links, one) == &f);
	STR_IS(links_name(&f.links), "runner");
	links_give(&f.links, one);
	links_give(&f.links, two);
	OK(f.closed == 0); /* it stays open for the next caller */
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
	OK(links_take(&f.links, &op, &old, &e) == 0);
	links_lost(&f.links, "the VM was reset");
	OK(line_failed(old) && f.closed == 0); /* it is still in use */
	STR_IS(links_name(&f.links), "");
	OK(links_take(&f.links, &op, &new, &e) == 0);
	OK(new != old &&f.opened == 2);
	links_give(&f.links, old);
	OK(f.closed == 1);
	line_fail(new, "the runner was killed"); /* without links_lost */
	links_give(&f.links, new);
	OK(links_take(&f.links, &op, &new, &e) == 0 && f.opened == 3 && f.closed == 2);
	links_give(&f.links, new);
	links_close(&f.links);
	OK(f.closed == 3);
	OK(links_take(&f.links, &op, &new, &e) == 0 && f.opened == 4);
	links_give(&f.links, new);
	finish(&f);
	OK(f.closed == 4);
}

/* An old line that waits for the reason of its end takes nothing of the new line's conversation. */
static void test_old_line_lets_go(void)
{
	struct op op = op_for_cleanup(60);
	struct guest *busy, *old, *new;
	struct collected c = {0};
	struct guest_exit exit;
	struct fake f;
	struct err e;
	int good = 0;

	start(&f);
	f.links.ops = &port_ops;
	OK(links_take(&f.links, &op, &busy, &e) == 0);
	OK(run_exec(busy, 10, &c, &exit, &e) == 0);
	for (int round = 0; round < 10; round++) {
		old = links_detach(&f.links);
		OK(!line_failed(old));
		OK(links_take(&f.links, &op, &new, &e) == 0);
		for (int i = 0; i < 10; i++)
			good += run_exec(new, 10, &c, &exit, &e) == 0;
		OK(run_exec(old, 10, &c, &exit, &e) < 0);
		STR_IS(e.msg, "the runner ended");
		links_fail(&f.links, old, "another reason");
		links_give(&f.links, new);
	}
	OK(good == 100);
	OK(f.opened == 11 && f.closed == 9); /* the first is in use, the last is current */
	links_give(&f.links, busy);
	OK(f.closed == 10);
	finish(&f);
}

static void test_an_agent_is_not_lost(void)
{
	struct op op = op_for_cleanup(60);
	struct guest *one, *two;
	struct fake f;
	struct err e;

	start(&f);
	f.agents = true;
	OK(links_take(&f.links, &op, &one, &e) == 0);
	STR_IS(links_name(&f.links), "agent");
	links_lost(&f.links, "the guest runner ended");
	OK(links_take(&f.links, &op, &two, &e) == 0 && one == two && f.opened == 1);
	links_give(&f.links, one);
	links_give(&f.links, two);
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
	OK(links_take(&f.links, &op, &g, &e) < 0);
	STR_IS(e.msg, "no route");
	f.broken = false;
	f.dead = true;
	OK(links_take(&f.links, &op, &g, &e) < 0);
	STR_IS(e.msg, "it was shut down");
	OK(f.opened == 1);
	f.dead = false;
	OK(turn_take(&f.links.opening, &op, &e) ==
		0); /* as if another thread were opening a link */
	OK(links_take(&f.links, &brief, &g, &e) < 0 && e.kind == ERR_TIMEOUT);
	turn_give(&f.links.opening);
	OK(links_take(&f.links, &op, &g, &e) == 0);
	links_give(&f.links, g);
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
		if (links_take(&f->links, &op, &g, &e) < 0)
			return f;
		links_give(&f->links, g);
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
	test_old_line_lets_go();
	test_an_agent_is_not_lost();
	test_failures();
	test_many_at_once();
	return tap_done();
}
