/*
 * name.h - names of sandboxes: what a client may choose, and what a copy is called. A name stands
 * wherever an id does, so it must not look like one. Any thread.
 */
#pragma once

#include "util/err.h"

enum {
	NAME_LEN_MAX = 63,
	NAME_SIZE = NAME_LEN_MAX + 16, /* that of a copy of a copy may be longer */
};

int name_check(const char *name, struct err *e);
/* Makes the name of the k-th copy of a sandbox: "demo-2". */
int name_of_copy(const char *name, unsigned k, char ret[NAME_SIZE], struct err *e);
