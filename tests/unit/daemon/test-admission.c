#include "daemon/admission.h"

#include <pthread.h>

#include "tap.h"
#include "scratch.h"

/*
 * On a busy host the amount of available memory changes, so sizes are fractions of it: half of it
 * stays reserved, and a guest takes six tenths of the other half. One guest fits, two clearly do
 * not.
 */
static unsigned room, most_of_it;

static struct admission *with_room(void)
{
	struct admission_figures f;
	struct admission *a = NULL;
	struct err e;

	if (admission_new(0, &a, &e) < 0)
		abort();
	admission_figures(a, &f);
	admission_free(a);
	room = (unsigned)f.available_mb / 2;
	most_of_it = room / 10 * 6;
	if (admission_new((unsigned)f.available_mb - room, &a, &e) < 0)
		abort();
	return a;
}

static void test_refuses(void)
{
	struct admission *a = with_room();
	struct op op = op_for_cleanup(30);
	struct admission_figures f;
	char want[64];
	struct err e;

	admission_figures(a, &f);
	OK(f.total_mb > 0 && f.available_mb <= f.total_mb && f.promised_mb == 0);
	OK(admission_enter(a, &op, 2 * room, false, &e) < 0 && e.kind == ERR_BUSY);
	snprintf(want, sizeof(want), "needs %u MB, the host has ", 2 * room);
	OK(strstr(e.msg, want));
	snprintf(want, sizeof(want), " of %llu MB available", f.total_mb);
	OK(strstr(e.msg, want) && strstr(e.msg, " 0 MB are promised"));
	/* No sandbox of ours could give memory back, so waiting would never end. */
	OK(admission_enter(a, &op, 2 * room, true, &e) < 0 && e.kind == ERR_BUSY);
	OK(admission_enter(a, &op, 100, false, &e) == 0);
	/* A request for more than the host's total memory fails at once. */
	OK(admission_enter(a, &op, (unsigned)f.total_mb, true, &e) < 0 && e.kind == ERR_BUSY);
	OK(admission_could_fit(a, (unsigned)f.total_mb, &e) < 0 && e.kind == ERR_BUSY);
	OK(admission_could_fit(a, 1, &e) == 0 && admission_could_fit(a, 0, &e) == 0);
	admission_figures(a, &f);
	OK(f.promised_mb == 100);
	admission_leave(a, 100);
	admission_figures(a, &f);
	OK(f.promised_mb == 0);
	admission_free(a);
	admission_free(NULL);
}

struct guest {
	struct admission *a;
	struct op op;
	struct err e;
	pthread_t thread;
	bool waits, in;
	int rc;
};

static void note_waiting(void *arg, const char *text, uint64_t done, uint64_t total)
{
	(void)text;
	(void)done;
	(void)total;
	__atomic_store_n(&((struct guest *)arg)->waits, true, __ATOMIC_RELEASE);
}

static void *enter(void *arg)
{
	struct guest *g = arg;

	g->rc = admission_enter(g->a, &g->op, most_of_it, true, &g->e);
	__atomic_store_n(&g->in, true, __ATOMIC_RELEASE);
	return NULL;
}

static void guest_start(struct guest *g, struct admission *a)
{
	struct err e;

	*g = (struct guest){.a = a};
	if (op_init(&g->op, "g", 60, &e) < 0)
		abort();
	g->op.on_progress = note_waiting;
	g->op.progress_arg = g;
	pthread_create(&g->thread, NULL, enter, g);
}

static void test_waits(void)
{
	struct admission *a = with_room();
	struct op op = op_for_cleanup(60);
	int64_t start;
	struct guest g;
	struct err e;

	OK(admission_enter(a, &op, most_of_it, true, &e) == 0);
	guest_start(&g, a);
	OK(EVENTUALLY(__atomic_load_n(&g.waits, __ATOMIC_ACQUIRE)));
	OK(!__atomic_load_n(&g.in, __ATOMIC_ACQUIRE));
	/* A request that does not wait fails at once, even behind one that waits. */
	start = now_ns();
	OK(admission_enter(a, &op, most_of_it, false, &e) < 0 && e.kind == ERR_BUSY);
	OK(strstr(e.msg, "not enough memory") && seconds_since(start) < 20);
	admission_leave(a, most_of_it);
	OK(EVENTUALLY(__atomic_load_n(&g.in, __ATOMIC_ACQUIRE)));
	pthread_join(g.thread, NULL);
	OK(g.rc == 0);
	op_done(&g.op);

	/* A wait ends with its operation, and leaves no reservation behind. */
	guest_start(&g, a);
	OK(EVENTUALLY(__atomic_load_n(&g.waits, __ATOMIC_ACQUIRE)));
	op_cancel(&g.op);
	pthread_join(g.thread, NULL);
	OK(g.rc < 0 && g.e.kind == ERR_CANCELLED);
	STR_IS(g.e.msg, "waiting for memory: cancelled");
	op_done(&g.op);
	admission_leave(a, most_of_it);
	struct admission_figures f;
	admission_figures(a, &f);
	OK(f.promised_mb == 0);
	admission_free(a);
}

struct spare {
	struct admission *a;
	unsigned asked;
};

/* Removes a sandbox in standby: there is one. */
static bool give_way(void *arg)
{
	struct spare *s = arg;

	if (s->asked++ > 0)
		return false;
	admission_leave(s->a, most_of_it);
	return true;
}

static void test_gives_way(void)
{
	struct admission *a = with_room();
	struct op op = op_for_cleanup(60);
	struct spare spare = {.a = a};
	struct err e;

	admission_on_shortage(a, give_way, &spare);
	OK(admission_enter(a, &op, most_of_it, ADMISSION_SPARE, &e) == 0 && spare.asked == 0);
	/* No sandbox in standby is removed for another one in standby, or for a request that can
	 * never fit. */
	OK(admission_enter(a, &op, most_of_it, ADMISSION_SPARE, &e) < 0 && e.kind == ERR_BUSY);
	OK(admission_enter(a, &op, 1u << 30, ADMISSION_WAIT, &e) < 0 && spare.asked == 0);
	OK(admission_enter(a, &op, most_of_it, ADMISSION_TRY, &e) == 0 && spare.asked == 1);
	OK(admission_enter(a, &op, most_of_it, ADMISSION_TRY, &e) < 0 && spare.asked == 2);
	admission_leave(a, most_of_it);
	admission_free(a);
}

int main(void)
{
	struct admission_figures f;
	struct admission *a = NULL;
	struct err e;

	OK(admission_new(0, &a, &e) == 0);
	admission_figures(a, &f);
	admission_free(a);
	if (f.available_mb > 2000) {
		test_refuses();
		test_waits();
		test_gives_way();
	} else {
		printf("# only %llu MB available: waiting for memory is not tested\n",
			f.available_mb);
	}
	return tap_done();
}
