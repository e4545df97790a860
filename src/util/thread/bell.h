/*
 * bell.h - tells any number of threads that something has changed; what it is they look up
 * themselves. Many rings before a listener looks are one to it. Any thread.
 */
#pragma once

#include "util/err.h"
#include "util/thread/lock.h"

struct bell_listener { /* on the stack of the thread that listens */
	int fd;        /* readable when the bell has rung since bell_heard */
	struct bell_listener *next;
};

struct bell {
	struct lock mu;
	struct bell_listener *first;
};

void bell_init(struct bell *b);
void bell_done(struct bell *b);
/* The caller may hold an outer lock, and no leaf. NULL is fine. */
void bell_ring(struct bell *b);
int bell_listen(struct bell *b, struct bell_listener *l, struct err *e);
void bell_heard(struct bell_listener *l);
void bell_leave(struct bell *b, struct bell_listener *l);
