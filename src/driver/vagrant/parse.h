/*
 * vagrant-parse.h - what Vagrant prints. Pure and bounded; the text is partly a guest's (output of
 * provisioners), so nothing here trusts it.
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
	VAGRANT_LAST_WORDS = 3,
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
	unsigned actions; /* that it finished */
	struct vagrant_ssh ssh;
};

/* What a run of Vagrant has said so far. Zero-initialised is the beginning. */
struct vagrant_report {
	struct vagrant_machine machines[VAGRANT_MACHINES_MAX]; /* in the Vagrantfile's order */
	unsigned n_machines;
	bool too_many;
	char error_class[128];               /* "MachineActionLockedError"; "" if none was named */
	char error[512];                     /* one line, escaped */
	char words[VAGRANT_LAST_WORDS][200]; /* the last things said to people, the latest first */
	char progress[160];                  /* for people: what it does now; "" if nothing new */
};

/* One line of standard output, changed in place. */
void vagrant_report_line(struct vagrant_report *r, char *line);
struct vagrant_machine *vagrant_report_machine(struct vagrant_report *r, const char *name);
/*
 * Why a run failed, in one line: its own error, and for a failed provisioner what that said last;
 * otherwise the sense of its plain stderr. err_kind: as fits. Returns -1.
 */
int vagrant_report_fail(const struct vagrant_report *r, int exit_code, const char *stderr_text,
	const char *what, struct err *e);
/* Somebody else, or a process of ours that is just ending, works on the machine. */
bool vagrant_report_locked(const struct vagrant_report *r);
