/*
 * supervise.h - starting a command, under a process that watches over it.
 *
 * Every running command has a supervisor, a child of the runner, and is that one's child. The
 * supervisor is a child subreaper: whatever the command starts stays below it, even what has left
 * its session or lost its parent, so a timeout can end all of it. When the command ends by itself
 * the supervisor reports. If nothing is left below it, it is used again; if there are background
 * processes it leaves, and these go on and become init's.
 *
 * New processes are the dearest part of starting a command, so they are made ahead of need. A
 * supervisor that is at hand has children already, each in a place of its own, with a session and
 * with pipes for its output, which wait to become a command (command.h). More are made when nothing
 * has happened for a while, or none is left: not between one command and the next.
 *
 * What to start, who of them may go and how it ended lies in memory that all share (job.h); that
 * there is a report the supervisor tells by an eventfd. Over a socket the runner sends orders
 * (orders.h) to have a process wait in a place, with its pipes; a signal tells that there are some.
 * That the socket ends, because one of them has, means to the other: end everything. Over another
 * goes the command's input to its process.
 */
#pragma once

#include "runner/channel.h"
#include "runner/job.h"

/* One end of each of the pipes that stdout and stderr are. */
struct pipe_ends {
	int out, err;
};

/*
 * For one process that waits, and later for the command. Ours are nonblocking, and whoever starts a
 * job may take them. The command's we hold as long as it runs: the supervisor tells its end, and we
 * are not woken for the end of each pipe as well.
 */
struct place {
	bool taken;
	struct pipe_ends ours, theirs;
};

struct supervisor {
	struct watch watch; /* its socket; first, so that one gives the other */
	struct watch told;  /* the eventfd */
	struct runner *runner;
	struct job *job;
	int input; /* the other socket */
	bool once; /* not to be used again */
	struct place place[JOB_PLACES];
	unsigned next; /* the place of the next job, and of the one that runs */
	void (*news)(void *arg);
	void *arg;                    /* NULL: it is idle */
	struct supervisor *next_idle; /* or retired */
};

/* 0 or an errno. Ours, read or write, is nonblocking: the command expects nothing of the kind. */
int pipe_make(int *ret_ours, int *ret_theirs, bool we_read);

/* One whose job is large enough, for the caller to fill in and then start, put back or drop. NULL,
 * errno. */
struct supervisor *supervise_take(struct runner *r, size_t size);
void supervise_put_back(struct supervisor *s);
/* Starts the job. in: the command's stdin or terminal, -1 for none. news(arg): a report is there,
 * or never will be. 0 or an errno. */
int supervise_start(struct supervisor *s, int in, void (*news)(void *arg), void *arg);

/* 1 and the report; 0: it runs; -1: the supervisor was killed. */
int supervise_report(struct supervisor *s, struct report *ret);
/* To the command's process group. */
void supervise_signal(struct supervisor *s, int number);
/* The report comes when all is dead. */
void supervise_end_all(struct supervisor *s);

/* After a report. ours: the pipes that the caller took and has no more use for, -1 for none.
 * Closing takes a while, and the next command may come at once: they wait until the place is filled
 * again. */
void supervise_return(struct supervisor *s, bool alone, struct pipe_ends ours);
/* At any time, also instead: ends everything that is left below it. */
void supervise_drop(struct supervisor *s);

/* For the loop: makes sure that one is at hand, with all its places taken; frees what no event can
 * refer to any more, ends those at hand. */
void supervise_refill(struct runner *r);
void supervise_bury(struct runner *r);
void supervise_dismiss(struct runner *r);
