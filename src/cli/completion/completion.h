/* complete.h - shell completion, made from the table of verbs. */
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
/* Text inside single quotes of the shell. A backslash goes before each of the characters in
 * special. */
void complete_quote(FILE *f, const char *text, const char *special);
