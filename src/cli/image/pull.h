/* pull.h - images from the net. The command line is single-threaded. */
#pragma once

#include "cli/cli.h"

/* Has the daemon download what `from` names, with the options --name, --sha256, --user, --os-type
 * and
 * --firmware, and prints the new image. */
int image_pull(struct cli *cli, const char *from, struct err *e);
