/*
 * agent-run.h - one command in a Linux guest through the plain guest agent and its shell. Not
 * thread-safe, like the agent's client.
 */
#pragma once

#include "guest/guest.h"
#include "guest/qga.h"

/* What is left of a stream, for our own last line is in it too. */
static inline size_t agent_tail_max(const struct qga *q)
{
	return qga_output_max(q) - 4096;
}

struct agent_run {
	const char *user, *cwd; /* NULL: root, home */
	const char *const *argv;
	const char *const *env; /* may be NULL */
	struct bytes input;
	size_t tail_max; /* of each stream, 1 to agent_tail_max */
	double timeout;  /* 0: none */
};

struct agent_result {
	struct guest_exit exit;
	struct buf out, err; /* the tails */
};
void agent_result_free(struct agent_result *r);
#define auto_agent_result __attribute__((cleanup(agent_result_free)))

/* When op ends first, what the command started is killed before this returns. */
int agent_run(struct qga *q, const struct op *op, const struct agent_run *run,
	struct agent_result *ret, struct err *e);
