/* write.h - from the structs to JSON, as the table in fields.h says, and freeing them. Pure. */
#pragma once

#include <jansson.h>

#include "spec/fields.h"
#include "util/err.h"

int shape_write(const struct shape *s, const void *in, json_t **ret, struct err *e);
/* Frees what the struct's members own, not the struct itself, and leaves it zeroed. */
void shape_free(const struct shape *s, void *in);
