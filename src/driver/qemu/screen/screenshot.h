/* screenshot.h - a picture of a VM's screen. Any thread. */
#pragma once

#include "driver/qemu/vm/vm.h"
#include "screen/picture.h"

/* Fails if the VM has no display. */
int qemu_need_display(const struct qemu_vm *vm, struct err *e);
int qemu_screenshot(struct qemu_vm *vm, const struct op *op, struct picture *ret, struct err *e);
