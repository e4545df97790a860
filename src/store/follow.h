/* follow.h - runs a child to its end and follows, line by line, what it prints meanwhile. */
#pragma once

#include "store/words.h"
#include "util/proc.h"

struct follow_req {
	struct proc_req proc;                         /* stdout and stderr are set here */
	void (*on_line)(void *arg, const char *line); /* for each line of stdout */
	void *arg;
	int log_fd; /* > 0: gets stderr */
	size_t log_max;
};
/* A non-zero exit is not an error. *ret_last: its last line on stderr, made printable. */
int follow_run(const struct op *op, const struct follow_req *req, char ret_last[WORDS_LINE_MAX + 1],
	int *ret_code, struct err *e);
