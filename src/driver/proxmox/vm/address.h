/* address.h - waits until a guest has the addresses that DHCP gives it. Used by the thread that
 * makes the VM. */
#pragma once

#include "driver/proxmox/site/sandbox.h"

/* Returns when each NIC of the VM that is in a network with DHCP has an IPv4 address, as the guest
 * agent tells; or after a while without, which is logged: a guest may leave a NIC alone. */
int pve_addresses_await(struct pve_vm *vm, const struct op *op, struct err *e);
