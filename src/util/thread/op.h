/*
 * op.h - an operation: a deadline, a way to cancel it, a name for the log. Operations wait here
 * only, so each can be cancelled and none can hang. No lock may be held meanwhile (lock.h).
 *
 * Thread contract: an op belongs to the thread that runs it; op_cancel may be called from any
 * thread as long as the op exists.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/err.h"

#define OP_NO_DEADLINE INT64_MAX

struct op {
	int64_t deadline_ns; /* CLOCK_MONOTONIC; OP_NO_DEADLINE: none */
	int cancel_fd;       /* eventfd, readable once cancelled; -1: cannot be cancelled */
	char id[32];         /* for the log */
	void (*on_progress)(void *arg, const char *text, uint64_t done, uint64_t total);
	void *progress_arg;
};

int64_t now_ns(void);

/* timeout_s <= 0: no deadline. */
int op_init(struct op *op, const char *id, double timeout_s, struct err *e);
void op_done(struct op *op);
void op_cancel(struct op *op);
bool op_cancelled(const struct op *op);
/* Fails with ERR_CANCELLED or ERR_TIMEOUT if the op was cancelled or its deadline has passed. */
int op_check(const struct op *op, struct err *e);

/* A part of an operation: it has a deadline of its own, never later than the whole's, and is
 * cancelled with the whole. */
struct op op_within(const struct op *op, double timeout_s);
/* For undoing what a cancelled or late operation did: it cannot be cancelled, and has a short
 * deadline. */
struct op op_for_cleanup(double timeout_s);

/* Waits until fd has one of the events; fails with ERR_TIMEOUT or ERR_CANCELLED. A hang-up and an
 * error count as events. */
int op_wait_fd(const struct op *op, int fd, short events, struct err *e);
/* Waits until at least one of several fds has an event, and sets their revents. */
enum { OP_FDS_MAX = 320 };
int op_wait_fds(const struct op *op, struct pollfd *fds, unsigned n, struct err *e);
/* Lets time pass: for backing off between polls of something that cannot be waited for. */
int op_pause(const struct op *op, double seconds, struct err *e);

/* Tells people how far the operation is; total 0: unknown. Cheap where nobody listens. */
PRINTF_LIKE(4, 5)
void op_progress(const struct op *op, uint64_t done, uint64_t total, const char *fmt, ...);
