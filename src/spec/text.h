/* text.h - checks single texts of a spec, and makes texts for messages. Pure. */
#pragma once

#include "spec/fields.h"
#include "util/err.h"

#define CHOICES_TEXT_MAX 256

/* Whether a text fits its field: length, characters, the choices or the pattern that it must
 * follow. */
int text_check(const struct field *f, const char *s, size_t len, struct err *e);
/* Why an absolute path cannot be that of a file in a guest; NULL: it can. */
const char *text_wrong_path(const char *path);
/* The member of the shape that a misspelt name probably means; NULL if none is near. */
const char *text_nearest_member(const struct shape *s, const char *name);
/* The number that a text stands for; -1: it is no choice. */
int choices_find(const struct choices *c, const char *s);
/* Writes the choices as "a", "b", "c" and returns out. */
const char *choices_text(const struct choices *c, char *out, size_t size);
