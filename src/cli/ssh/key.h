/* key.h - the key pair by which `ssh` logs in to VMs: one for each state directory, made when
 * it is first needed. */
#pragma once

#include "util/system/paths.h"

/* *ret_file: the private key; *ret_public: the line for a list of authorized keys. Either may be
 * NULL. Both are malloc'd. */
int ssh_key(const struct paths *paths, char **ret_file, char **ret_public, struct err *e);
