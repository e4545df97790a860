/* up.h - makes a sandbox, for `up` and `run`, which have these options: --name, --label, --build,
 * --no-wait and those of choose/spec.h. */
#pragma once

#include "cli/cli.h"

/* The sandbox goes with our connection. *ret: what `up` of the protocol answers; timeout 0: none.
 */
int up_make(struct cli *cli, json_t *spec, double timeout, json_t **ret, struct err *e);

/* clang-format off: a part of a verb's table */
#define UP_OPTS                                                                                    \
	{0, "ram", "MB", "memory of an image's VM: a number of MB, or 4G"},                        \
		{0, "vcpus", "N", "processors of that VM"},                                        \
		{'l', "label", "NAME=VALUE", "label the sandbox (may be repeated)"},               \
		{'n', "name", "NAME", "name the sandbox: NAME then stands wherever its id does"},  \
		{0, "build", NULL, "first build the images that are missing"},                     \
	{                                                                                          \
		0, "no-wait", NULL, "fail when the host's memory is taken, instead of waiting"     \
	}
