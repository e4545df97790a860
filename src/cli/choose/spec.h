/* spec.h - the spec that a command line means, for `up` and other verbs that make sandboxes. */
#pragma once

#include "cli/cli.h"

/* Makes a spec of the operand (a file or an image), --image, --ram and --vcpus. If the verb has
 * --disk-gb and --cdrom, of these, too. */
int choose_spec(struct cli *cli, json_t **ret, struct err *e);
/* The same; *ret_told is what the daemon said of a compose file, or NULL if it was none. */
int choose_spec_told(struct cli *cli, json_t **ret, json_t **ret_told, struct err *e);
