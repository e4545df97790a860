/* start.h - switches VMs on. Any thread. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Starts a VM; fine if it runs. */
int pve_start(struct pve_sandbox *b, const struct op *op, unsigned vmid, struct err *e);
/* Like pve_start, by another path of the API that ends in the VM's start, such as a rollback.
 * once: as in pve_vm_call. */
int pve_switch_on(struct pve_sandbox *b, const struct op *op, unsigned vmid, const char *path,
	const char *once, struct err *e);
