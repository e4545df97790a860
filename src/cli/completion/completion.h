/* completion.h - shell completion, made from the table of verbs. bash.c, fish.c and zsh.c have the
 * scripts. */
#pragma once

#include <stdio.h>

#include "cli/cmd.h"

void complete_bash(FILE *f);
void complete_zsh(FILE *f);
void complete_fish(FILE *f);

/* The n-th verb that can be run, subcommands included; NULL after the last. */
const struct cmd *complete_leaf(unsigned n);
/* The n-th option of a verb that people may use; NULL after the last. */
const struct opt *complete_opt(const struct cmd *cmd, unsigned n);
/* Prints text for use inside single quotes of the shell, with a backslash before each character in
 * `special`. */
void complete_quote(FILE *f, const char *text, const char *special);
