/* run.h - runs one command in a Linux guest through the plain agent and the guest's shell. Not
 * thread-safe, like the agent's client. */
#pragma once

#include "guestlink/guest.h"
#include "guestlink/agent/qga.h"

/* The output limit of a stream, less room for run.sh's own last line. */
static inline size_t agent_tail_max(const struct qga *q)
{
	return qga_output_max(q) - 4096;
}

struct agent_run {
	const char *user, *cwd; /* NULL: root, home */
	const char *const *argv;
	const char *const *env; /* may be NULL */
	struct bytes input;
	size_t tail_max; /* how much of each stream's end is kept: 1 to agent_tail_max */
	double timeout;  /* 0: none */
};

struct agent_result {
	struct guest_exit exit;
	struct buf out, err; /* the tails */
};
void agent_result_free(struct agent_result *r);
#define auto_agent_result __attribute__((cleanup(agent_result_free)))

/* If op ends first, kills all that the command has started before it returns. */
int agent_run(struct qga *q, const struct op *op, const struct agent_run *run,
	struct agent_result *ret, struct err *e);
