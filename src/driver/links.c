#include "driver/ways.h"

#include <stdlib.h>

#include "guest/line.h"
#include "util/auto.h"
#include "util/lock.h"

struct way {
	struct guest *guest;
	void *below;
	unsigned refs; /* operations that use it at the moment */
	struct way *next;
};

static void way_free(struct ways *w, struct way *way)
{
	guest_free(way->guest);
	if (w->ops->close_below)
		w->ops->close_below(way->below);
	free(way);
}

/* A way that is neither current nor in use leaves the list; the caller frees it after unlocking. */
static struct way *unlink_unused_locked(struct ways *w)
{
	for (struct way **at = &w->all; *at; at = &(*at)->next) {
		struct way *way = *at;

		if (way->refs == 0 && way != w->current) {
			*at = way->next;
			return way;
		}
	}
	return NULL;
}

static void free_unused(struct ways *w)
{
	for (;;) {
		struct way *way;

		{
			auto_unlock pthread_mutex_t *held = lock_take(&w->mu);
			way = unlink_unused_locked(w);
		}
		if (!way)
			return;
		way_free(w, way);
	}
}

int ways_init(struct ways *w, const struct ways_ops *ops, void *arg, struct err *e)
{
	*w = (struct ways){.ops = ops, .arg = arg};
	pthread_mutex_init(&w->mu, NULL);
	return turn_init(&w->opening, e);
}

void ways_close(struct ways *w)
{
	struct way *all;

	{
		auto_unlock pthread_mutex_t *held = lock_take(&w->mu);
		all = take_ptr(&w->all);
		w->current = NULL;
	}
	for (struct way *way = all, *next; way; way = next) {
		next = way->next;
		way_free(w, way);
	}
}

void ways_done(struct ways *w)
{
	if (!w->ops)
		return; /* never made */
	ways_close(w);
	turn_done(&w->opening);
	pthread_mutex_destroy(&w->mu);
}

/* 1: taken; 0: there is none; -1: the VM is dead. */
static int take_current(struct ways *w, struct guest **ret, struct err *e)
{
	if (w->ops->alive(w->arg, e) < 0)
		return -1;
	auto_unlock pthread_mutex_t *held = lock_take(&w->mu);
	if (w->current && guest_is_line(w->current->guest) && line_failed(w->current->guest))
		w->current = NULL;
	if (!w->current)
		return 0;
	w->current->refs++;
	*ret = w->current->guest;
	return 1;
}

static void install(struct ways *w, struct way *way)
{
	auto_unlock pthread_mutex_t *held = lock_take(&w->mu);

	way->refs = 1;
	way->next = w->all;
	w->all = w->current = way;
}

int ways_take(struct ways *w, const struct op *op, struct guest **ret, struct err *e)
{
	auto_turn struct turn *held = NULL;
	auto_free struct way *way = NULL;
	int got = take_current(w, ret, e);

	if (got)
		return got < 0 ? -1 : 0;
	if (turn_take(&w->opening, op, e) < 0)
		return -1;
	held = &w->opening;
	got = take_current(w, ret, e); /* somebody else may have opened it while we waited */
	if (got)
		return got < 0 ? -1 : 0;
	free_unused(w);
	way = calloc(1, sizeof(*way));
	if (!way)
		return err_oom(e);
	if (w->ops->open(w->arg, op, &way->guest, &way->below, e) < 0)
		return -1;
	*ret = way->guest;
	install(w, take_ptr(&way));
	return 0;
}

void ways_give(struct ways *w, struct guest *g)
{
	{
		auto_unlock pthread_mutex_t *held = lock_take(&w->mu);
		for (struct way *way = w->all; way; way = way->next)
			if (way->guest == g)
				way->refs--;
	}
	free_unused(w);
}

struct guest *ways_detach(struct ways *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&w->mu);
	struct way *way = w->current;

	if (!way || !guest_is_line(way->guest))
		return NULL;
	way->refs++;
	w->current = NULL;
	return way->guest;
}

void ways_fail(struct ways *w, struct guest *detached, const char *why)
{
	if (!detached)
		return;
	line_fail(detached, why);
	ways_give(w, detached);
}

void ways_lost(struct ways *w, const char *why)
{
	ways_fail(w, ways_detach(w), why);
}

void *ways_below(struct ways *w, const struct guest *g)
{
	auto_unlock pthread_mutex_t *held = lock_take(&w->mu);

	for (struct way *way = w->all; way; way = way->next)
		if (way->guest == g)
			return way->below;
	return NULL;
}

const char *ways_name(struct ways *w)
{
	auto_unlock pthread_mutex_t *held = lock_take(&w->mu);

	return w->current ? guest_way(w->current->guest) : "";
}
