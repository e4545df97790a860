/*
 * vm.h - one VM: cloned from its template, configured, started, and the link into it. The first
 * three are for the thread that makes the VM, in this order; the rest for any thread.
 */
#pragma once

#include "driver/proxmox/site/sandbox.h"

int pve_vm_clone(struct pve_vm *vm, const struct op *op, struct err *e);
int pve_vm_configure(struct pve_vm *vm, const struct op *op, struct err *e);
int pve_vm_start(struct pve_vm *vm, const struct op *op, struct err *e);

int pve_vm_wait_ready(struct pve_vm *vm, const struct op *op, struct err *e);
struct guest *pve_vm_guest(struct pve_vm *vm); /* NULL: not opened yet */
int pve_vm_guest_take(struct pve_vm *vm, const struct op *op, struct guest **ret, struct err *e);
/* Called when an operation failed: if that is because the VM has ended, e becomes the reason of
 * its end, and the VM counts as dead. */
void pve_vm_explain(struct pve_vm *vm, struct err *e);
/* Takes that back, for a VM that was started again. */
void pve_vm_revive(struct pve_vm *vm);
