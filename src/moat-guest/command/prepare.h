/* prepare.h - from the strings of an EXEC frame to what execve(2) wants, written into a job. */
#pragma once

#include "guest/wire.h"
#include "runner/job.h"

/* Views into the frame. */
struct prepared {
	const char *user, *cwd;
	uint32_t argc, envc;
	const uint8_t *strings; /* argc + envc of them */
	size_t len;
};

/* 0 or an errno: EINVAL if the frame makes no sense, E2BIG. */
int prepare_parse(const struct wire_msg *m, const struct frame *f, struct prepared *ret);
/* How large a job must be to hold it. */
size_t prepare_size(const struct prepared *p);
/* job->user must be there already. Adds PATH, HOME, USER, LOGNAME, SHELL, LANG and, for a terminal,
 * TERM, where the host has not given them. */
void prepare_fill(const struct prepared *p, bool tty, struct job *job);
