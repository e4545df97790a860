/* exec.h - running a command in a sandbox with our own streams: what `exec` and `shell` share. */
#pragma once

#include "cli/cli.h"

struct exec_req {
	json_t *args; /* of the operation, without env and tty; taken */
	json_t *env;  /* object, or NULL; taken */
	bool input;   /* our stdin is the command's */
	bool tty;     /* a terminal in the guest, and ours in raw mode if stdin is one */
	double timeout;
};

/* The command's exit code, or -1. */
int exec_run(struct cli *cli, struct exec_req *req, struct err *e);
