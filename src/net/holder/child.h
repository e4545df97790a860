/*
 * child.h - the programs that a holder keeps running: dnsmasq for each vnet, pasta for the way out.
 * One that ends is started again, but not for ever. For the holder's main thread.
 */
#pragma once

#include "util/proc.h"
#include "util/strv.h"

struct child {
	const char *what; /* for messages */
	struct strv argv;
	int netns;         /* where it runs; -1: where we are */
	struct proc_fd fd; /* one file that it inherits; as 0: none */
	int log_fd;        /* its stdout and stderr */
	unsigned ends;     /* since it last ran for long */
	int64_t since;     /* of the present run */
	struct proc proc;
};

int child_start(struct child *c, struct err *e);
/* It has ended: starts it again, or fails with the reason. */
int child_again(struct child *c, const char *last_words, struct err *e);
void child_free(struct child *c);

/* Runs a program to its end inside a network namespace (-1: here), with this on its stdin. */
int child_run(const struct op *op, int netns, const char *const *argv, struct bytes input,
	struct buf *ret_out, struct err *e);
