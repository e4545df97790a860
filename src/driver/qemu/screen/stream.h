/* stream.h - a VM's screen for a viewer. Any thread. */
#pragma once

#include "driver/qemu/vm/vm.h"

/* A socket, non-blocking, at whose other end QEMU's VNC server waits for a viewer that says who it
 * is to nobody. Nothing listens anywhere. */
int qemu_screen_open(struct qemu_vm *vm, const struct op *op, int *ret_fd, struct err *e);
