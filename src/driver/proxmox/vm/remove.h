/* remove.h - removes a VM from a server. Any thread. */
#pragma once

#include "driver/proxmox/site/site.h"

/* What is to be removed, and how to be sure that it is ours. */
struct pve_removal {
	const char *node, *stamp;
	unsigned vmid;
	bool maybe_coming;  /* a task on the server may still be making it */
	bool keep_template; /* a VM that is a template already stays */
};
/* Waits for a VM that may be in the making. 1: it is there, complete, and carries the stamp; 0:
 * there is none, and nothing makes it. ERR_BACKEND: it is half made, and nothing works on it. */
int pve_vm_await(
	struct pve_api *api, const struct op *op, const struct pve_removal *vm, struct err *e);
/* Removes the VM if it carries the stamp; fine if there is none. */
int pve_vm_remove(
	struct pve_site *site, const struct op *op, const struct pve_removal *vm, struct err *e);
