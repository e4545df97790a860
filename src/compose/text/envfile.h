/* envfile.h - variables: files of them, and the two forms of `environment`. Pure. */
#pragma once

#include <jansson.h>

#include "util/buf.h"

/* Adds the variables of a text of lines NAME=VALUE to an object; those of the same name are
 * replaced. Quotes are understood as a shell does; "#" begins a comment. */
int envfile_read(struct bytes text, json_t *into, struct err *e);
/*
 * A list of NAME=VALUE, or an object. A variable without a value has that of env, or is left out.
 * what names an item in messages.
 */
int variables_read(const json_t *j, const json_t *env, json_t *into, struct err *e);
