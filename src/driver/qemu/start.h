/* start.h - starting the VMs of a new local sandbox. By its owner, one at a time. */
#pragma once

#include "driver/qemu/sandbox.h"

/* Starts the VMs in the spec's order, and waits until all of them are ready. */
int qemu_sandbox_start(struct qemu_sandbox *b, const struct op *op, struct err *e);
/* Makes the forwards of the spec; any: at whatever ports of this host are free. */
int qemu_sandbox_forward(struct qemu_sandbox *b, const struct op *op, bool any, struct err *e);
