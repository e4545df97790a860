/* identity.h - gives the guest of a VM that was copied from a template an identity of its own. By
 * the VM's owner. */
#pragma once

#include "driver/qemu/vm/vm.h"

/* After the start, before a client gets in: gives a copy an identity and its network, and any other
 * VM its host name. */
int qemu_identify(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Waits for a while until DHCP has given a copy its addresses on vnets where other VMs may want to
 * reach it. */
int qemu_await_addresses(struct qemu_vm *vm, const struct op *op, struct err *e);
