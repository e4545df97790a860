/* help.h - prints help, made from the table of verbs. */
#pragma once

#include <stdio.h>

#include "cli/cmd.h"

void help_overview(FILE *f);
void help_verb(FILE *f, const struct cmd *cmd);
