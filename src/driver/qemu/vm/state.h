/* state.h - saving a VM's state into a file, and starting from it. By the VM's owner. */
#pragma once

#include "driver/qemu/vm/vm.h"

/* How long saving or loading all of a VM's memory may take. */
double qemu_state_seconds(const struct qemu_vm *vm);
/* Saves the state of a VM that is stopped, and leaves it stopped. With own_memory all of its memory
 * goes into the file, otherwise only what is not in a template's memory file. */
int qemu_state_save(
	struct qemu_vm *vm, const struct op *op, const char *path, bool own_memory, struct err *e);
/* Tells a QEMU that waits for a state where it is. The state is not loaded yet when this returns.
 */
int qemu_state_load(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Waits until the state is loaded. */
int qemu_state_wait(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Sets the links of all NICs up or down, as if their plugs were put in or pulled. */
int qemu_nics_plug(struct qemu_vm *vm, const struct op *op, bool in, struct err *e);
