/* watch.h - `moat ls --watch`. */
#pragma once

#include "cli/cli.h"

/* Shows what there is, live: a table on a terminal, else a line for each change, or with --json the
 * daemon's events. Until a signal, or q. */
int watch_run(struct cli *cli, struct err *e);
