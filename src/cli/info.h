/* info.h - printing groups of settings, for `info` and `doctor`. */
#pragma once

#include <jansson.h>

/* A title and the object's members, one a line; nothing if there are none. */
void info_print_group(const char *title, const json_t *group);
