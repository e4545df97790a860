/* pull.h - images from the net. The command line is single-threaded. */
#pragma once

#include "cli/cli.h"

/* Has the daemon download what `from` names, and prints the new image. Options: --name, --sha256,
 * --user, --os-type and --firmware. */
int image_pull(struct cli *cli, const char *from, struct err *e);
