/*
 * yaml.h - the text of a spec, JSON or YAML, as a JSON value. Pure.
 *
 * YAML is read by the 1.2 core schema: yes, no, on and off are strings, 0o17 and 0x1f are numbers.
 * Aliases, tags other than !!str, !!map and !!seq, duplicate keys and a second document are
 * refused.
 */
#pragma once

#include <jansson.h>

#include "util/buf.h"

#define SPEC_TEXT_MAX  (1024 * 1024)
#define SPEC_DEPTH_MAX 32

/* Messages of errors in the text begin with "line L, column C: ". */
int spec_text_to_json(struct bytes text, json_t **ret, struct err *e);
/* The same for texts that are no specs: aliases and "<<" mean what they do in YAML 1.1, within
 * bounds. */
int yaml_with_aliases_to_json(struct bytes text, json_t **ret, struct err *e);
