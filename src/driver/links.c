#include "driver/links.h"

#include <stdlib.h>

#include "util/auto.h"
#include "util/thread/lock.h"

struct guest_link {
	struct guest *guest;
	void *below;
	unsigned refs; /* operations that use it at the moment */
	bool parted;   /* links_part has dealt with it */
	struct guest_link *next;
};

/* Stops the link's reading and writing, and keeps the bytes that it has not sent. */
static void let_go(struct guest_links *links, struct guest_link *link)
{
	auto_buf struct buf rest = {0};

	if (!guest_can_be_cut_off(link->guest))
		return;
	guest_let_go(link->guest, &rest);
	auto_unlock struct lock *held = lock_take(&links->mu);
	buf_put(&links->unsent, buf_data(&rest), rest.len);
}

static void link_free(struct guest_links *links, struct guest_link *link)
{
	let_go(links, link);
	guest_free(link->guest);
	if (links->ops->close_below)
		links->ops->close_below(link->below);
	free(link);
}

/* A link that is neither current nor in use leaves the list; the caller frees it after unlocking.
 */
static struct guest_link *unlink_unused_locked(struct guest_links *links)
{
	for (struct guest_link **at = &links->all; *at; at = &(*at)->next) {
		struct guest_link *link = *at;

		if (link->refs == 0 && link != links->current) {
			*at = link->next;
			links->leaving++;
			return link;
		}
	}
	return NULL;
}

static void free_unused(struct guest_links *links)
{
	for (;;) {
		struct guest_link *link;

		{
			auto_unlock struct lock *held = lock_take(&links->mu);
			link = unlink_unused_locked(links);
		}
		if (!link)
			return;
		link_free(links, link);
		auto_unlock struct lock *held = lock_take(&links->mu);
		links->leaving--;
	}
}

void links_init(struct guest_links *links, const struct guest_links_ops *ops, void *arg)
{
	*links = (struct guest_links){.ops = ops, .arg = arg};
	lock_init(&links->mu, "guest_links.mu", LOCK_LEAF);
	turn_init(&links->opening);
}

void links_close(struct guest_links *links)
{
	struct guest_link *all;

	{
		auto_unlock struct lock *held = lock_take(&links->mu);
		all = take_ptr(&links->all);
		links->current = NULL;
	}
	for (struct guest_link *link = all, *next; link; link = next) {
		next = link->next;
		link_free(links, link);
	}
	buf_free(&links->unsent);
}

void links_done(struct guest_links *links)
{
	if (!links->ops)
		return; /* links_init was never called */
	links_close(links);
	turn_done(&links->opening);
	lock_done(&links->mu);
}

/* 1: taken; 0: there is no current link; -1: the VM is dead. */
static int take_current(struct guest_links *links, struct guest **ret, struct err *e)
{
	if (links->ops->alive(links->arg, e) < 0)
		return -1;
	auto_unlock struct lock *held = lock_take(&links->mu);
	if (links->current && guest_is_cut_off(links->current->guest))
		links->current = NULL;
	if (!links->current)
		return 0;
	links->current->refs++;
	*ret = links->current->guest;
	return 1;
}

static void install(struct guest_links *links, struct guest_link *link)
{
	auto_unlock struct lock *held = lock_take(&links->mu);

	link->refs = 1;
	link->next = links->all;
	links->all = links->current = link;
}

int links_take(struct guest_links *links, const struct op *op, struct guest **ret, struct err *e)
{
	auto_turn struct turn *held = NULL;
	auto_free struct guest_link *link = NULL;
	int got = take_current(links, ret, e);

	if (got)
		return got < 0 ? -1 : 0;
	if (turn_take(&links->opening, op, e) < 0)
		return -1;
	held = &links->opening;
	got = take_current(links, ret, e); /* another thread may have opened it while we waited */
	if (got)
		return got < 0 ? -1 : 0;
	free_unused(links);
	link = calloc(1, sizeof(*link));
	if (!link)
		return err_oom(e);
	if (links->ops->open(links->arg, op, &link->guest, &link->below, e) < 0)
		return -1;
	*ret = link->guest;
	install(links, take_ptr(&link));
	return 0;
}

void links_give(struct guest_links *links, struct guest *g)
{
	{
		auto_unlock struct lock *held = lock_take(&links->mu);
		for (struct guest_link *link = links->all; link; link = link->next)
			if (link->guest == g)
				link->refs--;
	}
	free_unused(links);
}

struct guest *links_detach(struct guest_links *links)
{
	auto_unlock struct lock *held = lock_take(&links->mu);
	struct guest_link *link = links->current;

	if (!link || !guest_can_be_cut_off(link->guest))
		return NULL;
	link->refs++;
	links->current = NULL;
	return link->guest;
}

void links_fail(struct guest_links *links, struct guest *detached, const char *why)
{
	if (!detached)
		return;
	guest_cut_off(detached, why);
	links_give(links, detached);
}

void links_lost(struct guest_links *links, const char *why)
{
	links_fail(links, links_detach(links), why);
}

static struct guest_link *take_unparted_locked(struct guest_links *links)
{
	for (struct guest_link *link = links->all; link; link = link->next)
		if (!link->parted && guest_can_be_cut_off(link->guest)) {
			link->parted = true;
			link->refs++;
			return link;
		}
	return NULL;
}

static bool are_leaving(struct guest_links *links)
{
	auto_unlock struct lock *held = lock_take(&links->mu);

	return links->leaving > 0;
}

static void part_all(struct guest_links *links, const char *why)
{
	for (;;) {
		struct guest_link *link;

		{
			auto_unlock struct lock *held = lock_take(&links->mu);
			link = take_unparted_locked(links);
		}
		if (!link)
			return;
		guest_cut_off(link->guest, why);
		let_go(links, link);
		links_give(links, link->guest);
	}
}

int links_part(struct guest_links *links, const struct op *op, const char *why, struct buf *rest,
	struct err *e)
{
	auto_buf struct buf unsent = {0};

	part_all(links, why);
	while (are_leaving(links)) /* another thread is freeing one */
		if (op_pause(op, 0.002, e) < 0)
			return -1;
	{
		auto_unlock struct lock *held = lock_take(&links->mu);
		unsent = links->unsent;
		links->unsent = (struct buf){0};
	}
	buf_put(rest, buf_data(&unsent), unsent.len);
	return buf_check(&unsent, e);
}

void links_stand_still(struct guest_links *links, bool still)
{
	auto_unlock struct lock *held = lock_take(&links->mu);

	for (struct guest_link *link = links->all; link; link = link->next)
		guest_stand_still(link->guest, still);
}

void *links_below(struct guest_links *links, const struct guest *g)
{
	auto_unlock struct lock *held = lock_take(&links->mu);

	for (struct guest_link *link = links->all; link; link = link->next)
		if (link->guest == g)
			return link->below;
	return NULL;
}

const char *links_name(struct guest_links *links)
{
	auto_unlock struct lock *held = lock_take(&links->mu);

	return links->current ? guest_link_name(links->current->guest) : "";
}

bool links_is_runner(struct guest_links *links)
{
	auto_unlock struct lock *held = lock_take(&links->mu);

	return links->current && guest_has_runner(links->current->guest);
}
