/* values.h - single values of a compose file: durations, sizes, switches. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "util/err.h"

/* "1m30s", "500ms", "1.5h": seconds. */
int value_duration(const json_t *j, double *ret, struct err *e);
/* "512m", "0.5gb", "64MiB", or a number of bytes. */
int value_bytes(const json_t *j, uint64_t *ret, struct err *e);
/* Reads a number of bytes, and returns it in MiB, rounded up. */
int value_mb(const json_t *j, uint64_t *ret, struct err *e);
/* A number, or a text that is one. */
int value_number(const json_t *j, double *ret, struct err *e);
/* true or false, or a text that is one of them. */
int value_flag(const json_t *j, bool *ret, struct err *e);
/* A text, a number or a switch as text; the caller frees. */
int value_text(const json_t *j, char **ret, struct err *e);
