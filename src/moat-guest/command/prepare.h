/* prepare.h - from the strings of an EXEC frame to a struct command. Pure. */
#pragma once

#include "moat-guest/command/command.h"

/* Views into the frame. */
struct prepared {
	const char *user, *cwd;
	uint32_t argc, envc;
	const uint8_t *strings; /* argc + envc of them */
	size_t len;
};

/* 0 or an errno: EINVAL if the frame makes no sense, E2BIG. */
int prepare_parse(const struct wire_msg *m, const struct frame *f, struct prepared *ret);
/* How large a struct command must be to hold it. */
size_t prepare_size(const struct prepared *p);
/* c->user must be there already. Adds PATH, HOME, USER, LOGNAME, SHELL, LANG and, for a terminal,
 * TERM, where the host has not given them. */
void prepare_fill(const struct prepared *p, bool tty, struct command *c);
