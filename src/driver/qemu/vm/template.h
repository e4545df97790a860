/* template.h - from which template a VM starts, and the making of templates. By the VM's owner. */
#pragma once

#include "driver/qemu/vm/vm.h"

/* In a template's directory: the kinds of SSH host keys that its system has, one a line. */
#define TEMPLATE_HOSTKEYS "host-keys"

/* Decides how the VM starts: sets template and load, or cold_reason. Makes the template if need be.
 * Fails only if the operation ends. */
int qemu_template_choose(struct qemu_vm *vm, const struct op *op, struct err *e);
/* The start from the template failed, and here is why: throws away what was made, the template too,
 * and boots. */
int qemu_template_give_up(
	struct qemu_vm *vm, const struct op *op, const struct err *why, struct err *e);
