/* access.h - what a daemon needs from this client's environment to reach a backend: logins of
 * Proxmox servers, variables for Vagrant. */
#pragma once

#include <jansson.h>

#include "util/err.h"

/*
 * Loads the Proxmox servers: {"instances": [...]} from PROXMOX_CONFIG_FILE, or from PROXMOX_HOST
 * and its companions; *ret is NULL if neither is set. It holds secrets: send it to the daemon and
 * nowhere else.
 */
int access_load(json_t **ret, struct err *e);
/* Adds the Proxmox servers, if there are any, to a call's arguments, as "access". */
int access_add(json_t *args, struct err *e);
/* Adds what all drivers may need: the servers, and the environment. */
int access_add_all(json_t *args, struct err *e);
/* Adds what one driver needs: the servers, or for Vagrant the environment. */
int access_add_for(json_t *args, const char *driver, struct err *e);
/* The environment of this process as an object of texts, but for what is not UTF-8. */
int access_environment(json_t **ret, struct err *e);
