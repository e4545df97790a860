/* steps.h - what `moat image build` changes in an image, from its options or a file. The command
 * line is single-threaded. */
#pragma once

#include "cli/cli.h"

/* True: the operand names a file with steps, and no image. */
bool steps_is_file(const char *operand);
/* Reads a file. *ret_base: the image that it starts from; the caller frees it. */
int steps_from_file(const char *path, json_t **ret, char **ret_base, struct err *e);
/* Adds those of the options. *ret is {} without any. */
int steps_from_options(struct cli *cli, json_t *steps, struct err *e);
