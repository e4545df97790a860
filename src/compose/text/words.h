/* words.h - a command that is written as one text, as the words that a shell would make of it.
 * There is no shell: nothing is expanded. Pure. */
#pragma once

#include <jansson.h>

#include "util/err.h"

/* A list of texts. What only a shell can do (pipes, redirections, several commands) is refused. */
int words_split(const char *text, json_t **ret, struct err *e);
