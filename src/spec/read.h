/* spec-read.h - from JSON to the structs, member by member, as the table says. Pure. */
#pragma once

#include <jansson.h>

#include "spec/spec-fields.h"
#include "util/err.h"

/*
 * Fills the zeroed struct at out from j. Members are checked one by one; how they fit together is
 * not. After a failure out holds what was read so far: shape_free() it.
 */
int shape_read(const struct shape *s, const json_t *j, void *out, struct err *e);

/* spec-write.c: the way back, and the end. shape_free leaves the struct zeroed. */
int shape_write(const struct shape *s, const void *in, json_t **ret, struct err *e);
void shape_free(const struct shape *s, void *in);
