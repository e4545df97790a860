/* exec.h - runs a command in a sandbox with our own streams, for `exec` and `shell`. */
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
