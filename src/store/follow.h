/* follow.h - runs a child to its end and reads its output line by line meanwhile. Any thread. */
#pragma once

#include "store/tool-output.h"
#include "util/system/proc.h"

struct follow_req {
	struct proc_req proc;                         /* stdout and stderr are set here */
	void (*on_line)(void *arg, const char *line); /* called for each line of stdout */
	void *arg;
	int log_fd; /* > 0: gets stderr */
	size_t log_max;
};
/* A non-zero exit status is no error here. ret_last: the last line of stderr, made printable. */
int follow_run(const struct op *op, const struct follow_req *req,
	char ret_last[TOOL_OUTPUT_LINE_MAX + 1], int *ret_code, struct err *e);
