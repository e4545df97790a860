/* spec-text.h - checks on single texts of a spec, and texts for messages. Pure. */
#pragma once

#include "spec/spec-fields.h"
#include "util/err.h"

#define WORDS_TEXT_MAX 256

/* Whether a text fits its field: length, characters, the words or the pattern it must follow. */
int text_check(const struct field *f, const char *s, size_t len, struct err *e);
/* The member of the shape that a misspelt name probably means; NULL if none is near. */
const char *text_nearest_member(const struct shape *s, const char *name);
/* The number that a text stands for; -1: it is none of these. */
int words_find(const struct words *w, const char *s);
/* "a", "b", "c"; returns out. */
const char *words_text(const struct words *w, char *out, size_t size);
