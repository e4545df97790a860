/* source.h - finds what a VM is cloned from. Used by the thread that makes the VM. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Finds the template of a VM, or makes it; fills template_id and template_config. vms: the VMs on
 * the node, as the server lists them. */
int pve_source_find(struct pve_vm *vm, const struct op *op, const json_t *vms, struct err *e);
