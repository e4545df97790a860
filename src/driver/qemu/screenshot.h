/* screenshot.h - a picture of a VM's screen. Any thread. */
#pragma once

#include "driver/qemu/vm/vm.h"

/* Adds a PNG to ret. */
int qemu_screenshot(struct qemu_vm *vm, const struct op *op, struct buf *ret, struct err *e);
