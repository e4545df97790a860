/*
 * access.h - which servers may be asked, and how to log in there. Any thread.
 */
#pragma once

#include "driver/proxmox/site/site.h"
#include "driver/proxmox/site/state.h"

/* Enters the instances of a client into the driver's; *ret: an array of struct pve_inst *, NULL at
 * the end, which the caller frees. access NULL: those that are known. */
int pve_access_read(
	struct pve_driver *d, const json_t *access, struct pve_inst ***ret, struct err *e);
/* The site that a journal entry names; reads the file of saved logins if need be. */
int pve_access_site(struct pve_driver *d, const char *key, struct pve_site **ret, struct err *e);
/* The login of the site is in the file when this returns; quick if it was there before. */
int pve_access_keep(struct pve_driver *d, const struct pve_site *s, struct err *e);
/* A sandbox has left the site: its login leaves the file, unless something is left there. */
int pve_access_drop(struct pve_driver *d, const struct pve_site *s, struct err *e);
/* Saves the logins of sites on which the journal or a sandbox has something, and removes all
 * others from the file. */
int pve_access_save(struct pve_driver *d, struct err *e);
