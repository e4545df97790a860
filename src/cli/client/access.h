/* access.h - how this client reaches a backend: what the daemon, with an environment of its own,
 * cannot know. */
#pragma once

#include <jansson.h>

#include "util/err.h"

/*
 * The Proxmox servers: {"instances": [...]} from PROXMOX_CONFIG_FILE, or else from PROXMOX_HOST and
 * its companions; *ret is NULL if there are neither. It holds secrets: it goes to the daemon and
 * nowhere else.
 */
int access_load(json_t **ret, struct err *e);
/* Adds "access" to the arguments of a call, if there is any: the Proxmox servers. */
int access_add(json_t *args, struct err *e);
/* For what concerns all drivers: the servers, and the environment. */
int access_add_all(json_t *args, struct err *e);
/* The same for a driver by its name: the servers, or for Vagrant the environment. */
int access_add_for(json_t *args, const char *driver, struct err *e);
