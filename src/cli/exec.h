/* exec.h - runs a command in a sandbox with our own streams, for `exec`, `run` and `shell`. */
#pragma once

#include "cli/cli.h"

struct exec_req {
	json_t *args; /* arguments of the operation, without env and tty; taken */
	json_t *env;  /* object, or NULL; taken */
	bool input;   /* the command reads our stdin */
	bool tty;     /* the command gets a terminal; ours is put into raw mode if stdin is one */
	double timeout;
};

/* Returns the command's exit code, or -1. */
int exec_run(struct cli *cli, struct exec_req *req, struct err *e);

/* Runs words as the options say that EXEC_OPTS lists. Returns as exec_run. */
int exec_words(struct cli *cli, const char *sandbox, const char *const *words, struct err *e);

/* clang-format off: a part of a verb's table */
#define EXEC_OPTS                                                                                  \
	{'i', "interactive", NULL, "give the command our standard input"},                         \
		{'t', "tty", NULL, "give the command a terminal"},                                 \
		{'u', "user", "USER", "run as this user, by name or number"},                      \
		{'w', "workdir", "DIR", "run in this directory (default: the user's home)"},       \
		{'e', "env", "NAME=VALUE",                                                         \
			"set a variable; NAME alone passes ours on (repeatable)"},                 \
		{0, "timeout", "SECONDS", "kill the command and all it started after so long"},    \
	{                                                                                          \
		0, "vm", "NAME", "in this VM of the sandbox"                                       \
	}
