/*
 * monitor.h - the thread that watches a VM: it reads QEMU's monitor, the serial console and QEMU's
 * stderr, and notices QEMU's end. Started and stopped by the VM's owner.
 */
#pragma once

#include "driver/qemu/vm/vm.h"

#define QEMU_RUNNER_ENDED "the guest runner ended"

int qemu_monitor_start(struct qemu_vm *vm, struct err *e);
/* Fine if it does not run. */
void qemu_monitor_stop(struct qemu_vm *vm);
