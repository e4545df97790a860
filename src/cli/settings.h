/* settings.h - prints groups of settings, for `info` and `doctor`. */
#pragma once

#include <jansson.h>

/* Prints a title and the object's members, one a line; nothing if there are none. */
void print_settings(const char *title, const json_t *group);
