/* access.h - the Proxmox servers that the environment names, for the daemon. */
#pragma once

#include <jansson.h>

#include "util/err.h"

/*
 * {"instances": [...]} from PROXMOX_CONFIG_FILE, or else from PROXMOX_HOST and its companions;
 * *ret is NULL if there are neither. It holds secrets: it goes to the daemon and nowhere else.
 */
int access_load(json_t **ret, struct err *e);
/* Adds "access" to the arguments of a call, if there is any. */
int access_add(json_t *args, struct err *e);
