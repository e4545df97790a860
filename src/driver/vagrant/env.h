/* env.h - environments for Vagrant: "NAME=value" in a struct strv. Pure, but for env_of_client. */
#pragma once

#include <jansson.h>

#include "util/strv.h"

/* The environment that the client sent in access (may be NULL), or else that of this process. */
int env_of_client(const json_t *access, struct strv *ret, struct err *e);
/* NULL: not set. name ends with its string or at a "=". */
const char *env_find(const struct strv *env, const char *name);
/* Replaces or adds; fails later, in strv_check. */
void env_set(struct strv *env, const char *name, const char *value);
