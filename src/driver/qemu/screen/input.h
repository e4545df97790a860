/* input.h - keys and the pointer of a VM. One thread at a time for a VM. */
#pragma once

#include "driver/qemu/vm/vm.h"
#include "screen/steps.h"

int qemu_input(
	struct qemu_vm *vm, const struct op *op, const struct step *steps, size_t n, struct err *e);
