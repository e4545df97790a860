/* read.h - from JSON to the structs, member by member, as the table in fields.h says. Pure. */
#pragma once

#include <jansson.h>

#include "spec/fields.h"
#include "util/err.h"

/*
 * Fills the zeroed struct at out from j. Members are checked one by one; how they fit together is
 * not. After a failure out holds what was read so far: shape_free() it.
 */
int shape_read(const struct shape *s, const json_t *j, void *out, struct err *e);
