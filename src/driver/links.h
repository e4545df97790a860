/*
 * ways.h - the ways into one VM's guest: the one that operations share now, and those that have
 * failed but are still in somebody's hands. A driver says how a way is opened; all else is here.
 *
 * Thread contract: take, give, lost and the questions on any thread; close and done by the VM's
 * owner, when nobody uses the guest any more.
 */
#pragma once

#include <pthread.h>

#include "guest/guest.h"
#include "util/turn.h"

struct ways_ops {
	/* -1, with the reason, once the VM is dead: nothing is taken or opened then. */
	int (*alive)(void *arg, struct err *e);
	/* By one thread at a time. *ret_below: what the guest needs beneath it, if anything. */
	int (*open)(void *arg, const struct op *op, struct guest **ret, void **ret_below,
		struct err *e);
	void (*close_below)(void *below); /* after the guest is freed; NULL: there is nothing */
};

struct way;

struct ways {
	const struct ways_ops *ops;
	void *arg;
	struct turn opening; /* held while somebody opens a way, or wants nobody to */
	pthread_mutex_t mu;
	struct way *current; /* NULL: none, or it has failed */
	struct way *all;     /* the current one and those still in use */
};

int ways_init(struct ways *w, const struct ways_ops *ops, void *arg, struct err *e);
/* Frees all ways, whoever has them. Others can be opened after that. */
void ways_close(struct ways *w);
void ways_done(struct ways *w); /* with ways_close */

/* The current way, or one that is opened now; given back with ways_give. */
int ways_take(struct ways *w, const struct op *op, struct guest **ret, struct err *e);
void ways_give(struct ways *w, struct guest *g);
/* The current way is of no use any more if it is a line: what runs on it fails with these words,
 * and the next to come opens another. */
void ways_lost(struct ways *w, const char *why);
/* The same in two steps, for those who learn later why. NULL: there is no line, nothing to fail. */
struct guest *ways_detach(struct ways *w);
void ways_fail(struct ways *w, struct guest *detached, const char *why);
/* What open gave along with a guest that was taken. */
void *ways_below(struct ways *w, const struct guest *g);
/* "runner", "agent"; "": there is none now. */
const char *ways_name(struct ways *w);
