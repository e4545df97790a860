/* up.h - what `moat up` shares with verbs that make sandboxes for other ends. */
#pragma once

#include <jansson.h>

#include "util/err.h"

struct cli;

/* The spec that the operand, --image, --ram and --vcpus mean. */
int up_choose_spec(struct cli *cli, json_t **ret, struct err *e);
