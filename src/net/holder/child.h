/* child.h - the programs that a holder keeps running: dnsmasq for each vnet, pasta for egress. A
 * program that ends is started again, but not for ever. For the holder's main thread. */
#pragma once

#include "util/system/proc.h"
#include "util/strv.h"

struct child {
	const char *what; /* for messages */
	struct strv argv;
	bool is_own; /* argv[0] is moat-helper: the holder cannot see that file, and runs itself */
	int netns;   /* its network namespace; -1: ours */
	int in_fd;   /* its stdin; 0: nothing */
	struct proc_fd fds[4]; /* further files that it inherits */
	unsigned n_fds;
	int log_fd;    /* its stdout and stderr */
	unsigned ends; /* how often it has ended since it last ran for long */
	int64_t since; /* when it was last started (now_ns) */
	struct proc proc;
};

int child_start(struct child *c, struct err *e);
/* Starts a program again after its end. Fails if it has ended too often, and says how it did. */
int child_restart(struct child *c, const char *last_output, struct err *e);
void child_free(struct child *c);

/* Runs a program to its end in a network namespace (-1: ours), with `input` on its stdin. */
int child_run(const struct op *op, int netns, const char *const *argv, struct bytes input,
	struct buf *ret_out, struct err *e);
