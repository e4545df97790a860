/*
 * entry.h - journal entries of what we make on servers, and the stamp that it carries there. Any
 * thread.
 */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Journals what is about to be made. kind: "vm", "template", "zone" or "volume". */
int pve_entry_intent(
	struct pve_sandbox *b, const char *kind, const char *name, int64_t *ret_row, struct err *e);
bool pve_entry_is_vm(const struct journal_entry *t); /* a template, too */

/* The sandbox whose stamp a text carries and that this installation made; false: it is not ours. */
bool pve_stamp_find(const struct pve_driver *d, const char *text, char ret_id[32]);
