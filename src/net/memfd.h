/* memfd.h - what is too large for a message to a holder, as a file in memory. */
#pragma once

#include <stddef.h>

#include "util/err.h"

/* With this content, at its start. */
int net_memfd(const char *name, const void *p, size_t n, int *ret, struct err *e);
