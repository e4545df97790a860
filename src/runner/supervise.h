/*
 * supervise.h - starting a command, under a process that watches over it.
 *
 * The runner forks a supervisor, and that one forks the command. The supervisor is a child
 * subreaper: whatever the command starts stays below it, even what has left its session or lost its
 * parent, so a timeout can end all of it. When the command ends by itself the supervisor reports
 * and leaves; background processes go on and become init's.
 *
 * Runner to supervisor, over a pipe: a byte is a signal for the command's process group; the end of
 * the pipe, also when the runner dies, means: end everything. Supervisor to runner: struct report.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "runner/users.h"

struct launch {
	char *const *argv, *const *env; /* NULL at the end */
	size_t strings;                 /* bytes in both */
	const char *cwd;                /* empty: the home, or "/" if that cannot be entered */
	const struct user *user;
	int in, out, err; /* for the command; CLOEXEC, not 0 to 2 */
	bool tty;         /* in is a terminal, to become the controlling one */
};

enum report_kind {
	REPORT_STARTED, /* value: pid, session and process group of the command */
	REPORT_ENDED,   /* value: as from wait(2) */
	/* it never ran; value: errno. An ENDED without meaning follows */
	REPORT_NO_USER,
	REPORT_NO_CWD,
	REPORT_NO_EXEC,
};

struct report {
	int32_t kind, value;
};

void report(int fd, int kind, int value);

/* Remembers the limits that commands are to have, before the runner changes its own. */
void supervise_keep_limits(void);

/* Closes every fd from this one on. */
void supervise_close_from(unsigned first);

/* 0 or an errno. Reports come from *ret_report (nonblocking); orders go to *ret_orders. */
int supervise(const struct launch *l, int *ret_report, int *ret_orders);
