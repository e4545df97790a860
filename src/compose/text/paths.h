/* paths.h - paths of the host as texts: nothing is looked up. Pure. */
#pragma once

#include "util/err.h"

/* An absolute path, from one that may be relative to dir, without "." and "..": as `cd` would. */
int path_below(const char *dir, const char *path, char **ret, struct err *e);
/* The directory that an absolute path is in. */
int path_parent(const char *path, char **ret, struct err *e);
