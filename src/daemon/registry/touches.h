/* touches.h - what people have done in a sandbox, for those who judge what happened there. An
 * evaluation must know that somebody has touched its VMs. Any thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/thread/lock.h"

enum touch {
	TOUCH_TYPED,      /* a command with a terminal */
	TOUCH_RAN,        /* a command without one */
	TOUCH_CONTROLLED, /* keyboard and mouse of a screen */
	TOUCH_WROTE,      /* files */
	TOUCH_SAVED,      /* a snapshot: the VMs stood still meanwhile */
	TOUCH_RESTORED,
	TOUCH_FORKED,
	TOUCH_FORWARDED, /* a port of the host leads into it, or no longer does */
	TOUCH_COUNT
};

enum { TOUCH_BY_SIZE = 32 };

struct touch_record {
	unsigned count;         /* 0: nobody has */
	int64_t first, last;    /* unix seconds */
	char by[TOUCH_BY_SIZE]; /* what the person used last, escaped */
};

struct touches {
	struct lock mu;
	struct touch_record of[TOUCH_COUNT];
};

void touches_init(struct touches *t);
void touches_done(struct touches *t);
void touches_add(struct touches *t, enum touch what, const char *by);
/* A copy of a sandbox has been touched as the sandbox was. */
void touches_copy(struct touches *to, struct touches *from);
/* TOUCHED objects of the protocol; *ret is NULL if nobody has touched it. False: out of memory. */
bool touches_to_json(struct touches *t, json_t **ret);
