/* format.h - a line of text about a sandbox, by a format that the user gives. */
#pragma once

#include <jansson.h>

#include "util/buf.h"

/*
 * Appends the format, with each {FIELD} replaced by what the SANDBOX object says, and a newline.
 * "\t" and "\n" in the format are a tab and a newline. Fails like a wrong command line if there is
 * no such field.
 */
int format_sandbox(const char *format, const json_t *sandbox, struct buf *out, struct err *e);

/* An array's members as "a,b,c", or an object's as "k=v,k=v". malloc'd; NULL: out of memory. */
char *format_list(const json_t *j, const char *member);
