#include "daemon/admission.h"

#include <stdlib.h>

#include "daemon/footprint.h"
#include "util/thread/lock.h"
#include "util/system/memory.h"
#include "util/thread/turn.h"

#define LOOK_AGAIN 0.25 /* seconds between looks: other programs may free memory, too */
#define NO_WAIT    1.0  /* seconds for the turn: it takes longer only if its holder waits */

struct admission {
	unsigned keep_mb;
	struct turn head; /* the first in the queue has it */
	struct lock mu;
	unsigned long long promised_mb;
	bool (*give_way)(void *arg); /* frees memory; may be NULL */
	void *give_way_arg;
};

int admission_new(unsigned keep_mb, struct admission **ret, struct err *e)
{
	struct admission *a = calloc(1, sizeof(*a));

	if (!a)
		return err_oom(e);
	a->keep_mb = keep_mb;
	turn_init(&a->head);
	lock_init(&a->mu, "admission.mu", LOCK_LEAF);
	*ret = a;
	return 0;
}

void admission_free(struct admission *a)
{
	if (!a)
		return;
	turn_done(&a->head);
	lock_done(&a->mu);
	free(a);
}

void admission_figures(struct admission *a, struct admission_figures *ret)
{
	struct memory m;

	memory_measure(&m);
	*ret = (struct admission_figures){
		.total_mb = m.total >> 20, .available_mb = m.available >> 20};
	{
		auto_unlock struct lock *held = lock_take(&a->mu);
		ret->promised_mb = a->promised_mb;
	}
}

/* Promises the memory if it fits. */
static bool try_promise(struct admission *a, unsigned mb, struct admission_figures *f)
{
	unsigned long long touched, untouched, need;

	admission_figures(a, f);
	touched = footprint_qemu_mb();
	untouched = f->promised_mb > touched ? f->promised_mb - touched : 0;
	need = (unsigned long long)mb + untouched + a->keep_mb;
	if (f->available_mb < need)
		return false;
	{
		auto_unlock struct lock *held = lock_take(&a->mu);
		a->promised_mb += mb;
	}
	return true;
}

static int refuse(
	const struct admission *a, unsigned mb, const struct admission_figures *f, struct err *e)
{
	return err_set(e, ERR_BUSY,
		"not enough memory: the sandbox needs %u MB, the host has %llu MB of %llu MB "
		"available,"
		" %llu MB are promised to other sandboxes and %u MB are kept for the host",
		mb, f->available_mb, f->total_mb, f->promised_mb, a->keep_mb);
}

/* Becomes the first in the queue. A request that does not want to wait for memory must not wait for
 * one that does, either. */
static int take_head(
	struct admission *a, const struct op *op, unsigned mb, bool wait, struct err *e)
{
	struct op soon = op_within(op, NO_WAIT);
	struct admission_figures f;

	if (turn_take(&a->head, wait ? op : &soon, e) == 0)
		return 0;
	if (wait || e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
		return err_wrap(e, "waiting for memory");
	admission_figures(a, &f);
	return refuse(a, mb, &f, e);
}

int admission_could_fit(struct admission *a, unsigned mb, struct err *e)
{
	struct admission_figures f;

	admission_figures(a, &f);
	if (!mb || (unsigned long long)mb + a->keep_mb <= f.total_mb)
		return 0;
	return err_set(e, ERR_BUSY,
		"not enough memory: the sandbox needs %u MB, the host has %llu MB, of which %u MB "
		"are kept for the host",
		mb, f.total_mb, a->keep_mb);
}

void admission_on_shortage(struct admission *a, bool (*give_way)(void *arg), void *arg)
{
	a->give_way = give_way;
	a->give_way_arg = arg;
}

int admission_enter(struct admission *a, const struct op *op, unsigned mb, enum admission_how how,
	struct err *e)
{
	bool wait = how == ADMISSION_WAIT;
	auto_turn struct turn *held = NULL;
	struct admission_figures f;
	bool said = false;

	if (mb == 0) /* the sandbox takes memory of a server, say */
		return 0;
	if (take_head(a, op, mb, wait, e) < 0)
		return -1;
	held = &a->head;
	while (!try_promise(a, mb, &f)) {
		if ((unsigned long long)mb + a->keep_mb > f.total_mb)
			return refuse(a, mb, &f, e);
		if (how != ADMISSION_SPARE && a->give_way && a->give_way(a->give_way_arg))
			continue;
		if (!wait || f.promised_mb == 0)
			return refuse(a, mb, &f, e);
		if (!said)
			op_progress(op, 0, 0, "waiting for %u MB of memory", mb);
		said = true;
		if (op_pause(op, LOOK_AGAIN, e) < 0)
			return err_wrap(e, "waiting for memory");
	}
	return 0;
}

void admission_leave(struct admission *a, unsigned mb)
{
	auto_unlock struct lock *held = lock_take(&a->mu);

	a->promised_mb -= mb;
}
