/* exec.h - a command from the loop's side: its pipes, its deadline, its answer (WIRE_EXIT). */
#pragma once

#include "runner/input.h"
#include "runner/ring.h"
#include "runner/supervise.h"

struct stream {
	struct watch watch; /* first, so that one gives the other */
	struct exec *exec;
	uint8_t number; /* enum wire_stream */
	bool ready;     /* there was something to read */
	size_t drain;   /* after the end: how much of what was in the pipe then is left */
	uint64_t total;
	struct ring tail;
};

struct exec {
	struct channel ch;
	struct stream out[2];
	struct input in;
	struct supervisor *supervisor; /* NULL: it is lost */
	bool capture, tty, spill;
	char *spilled; /* where the output went, if it did */
	bool cancelled, timed_out, killing, ended;
	bool alone; /* nobody is left who could write into the pipes */
	uint8_t how;
	uint32_t code;
};

/* Starts what an EXEC frame asks for, or answers why not. False: the frame makes no sense. */
bool exec_start(struct runner *r, const struct wire_msg *m, const struct frame *f);

/* NULL: no room, errno says why. */
struct exec *exec_new(struct runner *r, const struct wire_msg *m);
/* The loop's ends of its stdio, all nonblocking; -1 where there is none. */
struct exec_ends {
	int in, out, err;
};
/* Starts the supervisor's job, with the given stdin or terminal, and takes the supervisor and our
 * ends. 0 or an errno; then nothing has happened. */
int exec_run(struct exec *x, struct supervisor *s, int in, const struct exec_ends *ours);

/* what: the user, directory or command that a failure is about. */
void exec_answer(struct runner *r, const struct wire_msg *m, const char *what);
