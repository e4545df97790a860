/* json.h - jansson with our errors and ownership. Pure. */
#pragma once

#include <jansson.h>

#include "util/buf.h"

static inline void auto_json_decref(json_t **j)
{
	json_decref(*j);
}
#define auto_json __attribute__((cleanup(auto_json_decref)))

enum {
	JSON_DEPTH_MAX = 64,
	JSON_VALUES_MAX =
		512 * 1024, /* enough for the arguments of a command or all VMs of a cluster */
	JSON_VALUES_FEW = 16 * 1024,
};

/* Parses one JSON object; anything else is ERR_INVALID. Duplicate keys, deep nesting and too many
 * values are refused. */
int json_parse_object(struct bytes in, json_t **ret, struct err *e);
/* Like json_parse_object, for text from a guest: it may be long, but has at most JSON_VALUES_FEW
 * values. */
int json_parse_small(struct bytes in, json_t **ret, struct err *e);
/* Like json_parse_object, but strings may contain \u0000: take their length from
 * json_string_length. */
int json_parse_object_nul(struct bytes in, json_t **ret, struct err *e);
/* Compact text. */
int json_to_str(const json_t *j, char **ret, struct err *e);
/*
 * Reads the members of an object by a json_unpack() format such as "{s:s, s?:b}"; a member that the
 * format does not name is refused (add "*" at the end of the format to allow it). what names the
 * object in messages.
 */
int json_get(json_t *object, const char *what, struct err *e, const char *fmt, ...);
/* json_pack() that reports instead of returning NULL. */
int json_make(json_t **ret, struct err *e, const char *fmt, ...);
/* A JSON string of bytes that may not be UTF-8: invalid ones are escaped as \xNN. NULL: out of
 * memory. */
json_t *json_text(const char *s);
