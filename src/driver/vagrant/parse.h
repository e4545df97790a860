/*
 * parse.h - parses what Vagrant prints. Pure and bounded; a part of the text is a guest's (output
 * of provisioners), so nothing here trusts it.
 *
 * With --machine-readable a line is "epoch,target,type,data...", where a comma inside a field is
 * "%!(VAGRANT_COMMA)" and a newline is "\n". Some errors come on stderr as plain text all the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "util/err.h"

enum {
	VAGRANT_FIELDS_MAX = 16,
	VAGRANT_LINE_MAX = 64 * 1024,
	VAGRANT_KEYS_MAX = 4,
	VAGRANT_NAME_MAX = 128,
	VAGRANT_HOST_MAX = 256,
	VAGRANT_MACHINES_MAX = 64,
	VAGRANT_MESSAGES_KEPT = 24, /* machines go up together, and each may talk */
	VAGRANT_MESSAGES_SHOWN = 4,
};

struct vagrant_line {
	const char *target, *type; /* never NULL */
	const char *data[VAGRANT_FIELDS_MAX];
	unsigned n_data;
};

/* Takes line apart in place, without its newline; false: it is not machine-readable output. */
bool vagrant_line_parse(char *line, struct vagrant_line *ret);

/* How a machine is reached. */
struct vagrant_ssh {
	char host[VAGRANT_HOST_MAX], user[VAGRANT_NAME_MAX];
	unsigned port; /* 0: nothing is known yet */
	char keys[VAGRANT_KEYS_MAX][512];
	unsigned n_keys;
};

/* The text of `vagrant ssh-config NAME`; fails, naming what is missing or not supported. */
int vagrant_ssh_config_parse(const char *text, struct vagrant_ssh *ret, struct err *e);

struct vagrant_machine {
	char name[VAGRANT_NAME_MAX]; /* as Vagrant knows it */
	char provider[64], state[64];
	unsigned actions; /* how many it finished */
	struct vagrant_ssh ssh;
};

/* What a run of Vagrant has said so far. Zero-initialised is the beginning. */
struct vagrant_report {
	struct vagrant_machine machines[VAGRANT_MACHINES_MAX]; /* in the Vagrantfile's order */
	unsigned n_machines;
	bool too_many;
	char error_class[128];         /* "MachineActionLockedError"; "" if none was named */
	char error[512];               /* one line, escaped */
	char failed[VAGRANT_NAME_MAX]; /* the machine that the error is about; "" where that is not
					  said */
	char hint[300];                /* of our helper: what Vagrant's error does not say */
	struct vagrant_message {
		char target[VAGRANT_NAME_MAX], text[200];
	} messages[VAGRANT_MESSAGES_KEPT]; /* the last ones for people, in a circle */
	unsigned n_messages;               /* all that there were */
	char progress[160];                /* for people: what it does now; "" if nothing new */
};

/* One line of standard output, changed in place. */
void vagrant_report_line(struct vagrant_report *r, char *line);
struct vagrant_machine *vagrant_report_machine(struct vagrant_report *r, const char *name);
/*
 * Why a run failed, in one line: Vagrant's own error, and for a failed provisioner what that said
 * last; otherwise the gist of its stderr. The error's kind is what fits best. Returns -1.
 */
int vagrant_report_fail(const struct vagrant_report *r, int exit_code, const char *stderr_text,
	const char *what, struct err *e);
/* Whether the run failed because another process works on the machine: a user's, or one of ours
 * that is just ending. */
bool vagrant_report_locked(const struct vagrant_report *r);
