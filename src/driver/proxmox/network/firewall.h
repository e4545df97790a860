/* firewall.h - rules of the server's firewall that close a sandbox. Used by the thread that makes
 * the sandbox, or one of its VMs. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Whether the server has a firewall that is on. */
int pve_firewall_find(struct pve_sandbox *b, const struct op *op, struct err *e);
/* Lets a VM reach its sandbox's networks, and with snat public addresses, but neither the node
 * nor anything else with a private address. */
int pve_firewall_make(struct pve_vm *vm, const struct op *op, struct err *e);
