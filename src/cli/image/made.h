/* made.h - what verbs that make an image print. The command line is single-threaded. */
#pragma once

#include "cli/cli.h"

/* Prints a new image's name, for scripts; `image inspect` shows the rest. */
int image_print_made(struct cli *cli, const json_t *image, struct err *e);
