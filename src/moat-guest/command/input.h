/* input.h - a command's stdin: what the host has sent and the command has not read yet. At most a
 * window's worth, because the host gets credit only for what has been written. */
#pragma once

#include "moat-guest/common/job.h"

struct input {
	struct watch watch; /* nonblocking; fd -1: there is no stdin, or it has been closed */
	struct job *job;
	uint8_t *p; /* WIRE_WINDOW bytes, while any are waiting */
	size_t start, len;
	bool tty, eof, mid_line;
};

void input_init(struct input *in, struct job *job, int fd, bool tty);
void input_data(struct input *in, const uint8_t *p, size_t len);
void input_eof(struct input *in);
void input_close(struct input *in); /* may be called again */
