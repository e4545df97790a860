/* prepare.h - from the strings of an EXEC frame to what execve(2) wants. */
#pragma once

#include "guest/wire.h"
#include "runner/users.h"

struct prepared {
	const char *user, *cwd;
	char **argv, **env; /* one allocation, that of argv */
	size_t strings;
	char *base; /* memory of the entries that the host did not give */
};

/* The views into the frame; argv and env have only what the host gave. 0 or an errno: EINVAL if the
 * frame makes no sense, E2BIG, ENOMEM. */
int prepare_parse(const struct wire_msg *m, const struct frame *f, struct prepared *ret);
/* Adds PATH, HOME, USER, LOGNAME, SHELL, LANG and, for a terminal, TERM, where the host has not
 * given them. 0 or ENOMEM. */
int prepare_environment(struct prepared *p, const struct user *u, bool tty);
void prepare_free(struct prepared *p);
