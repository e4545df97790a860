/* net.h - the networks of a sandbox: a zone of the server's SDN with its vnets and subnets. Used by
 * the thread that makes the sandbox, or one of its VMs. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

int pve_net_make(struct pve_sandbox *b, const struct op *op, struct err *e);
/* The bridge that a NIC is connected to. */
int pve_net_bridge(struct pve_sandbox *b, const struct op *op, const struct nic_spec *nic,
	char **ret, struct err *e);
/* Whether DHCP gives the NIC an address, in a network of the sandbox's own. */
bool pve_net_has_dhcp(const struct pve_sandbox *b, const struct nic_spec *nic);
/* Gives a NIC the address that the spec reserves for it. */
int pve_net_reserve(struct pve_sandbox *b, const struct op *op, const struct pve_vm *vm,
	const struct nic_spec *nic, struct err *e);
