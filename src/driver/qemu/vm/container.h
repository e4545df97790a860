/* container.h - a VM made of a container image: our init is its process 1, and is asked through the
 * runner. By the VM's owner, but for logs. */
#pragma once

#include "driver/qemu/vm/vm.h"

/* Our programs, as an archive that the kernel unpacks behind the image's own. */
int qemu_container_programs(const struct qemu_vm *vm, struct buf *ret, struct err *e);
/* Waits until init has done all that a template shall hold. */
int qemu_container_settle(struct guest *g, const struct op *op, struct err *e);

/* Puts files and binds into the running VM, and starts its service, once. */
int qemu_service_start(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Fails, with the last lines of its log, if the service has ended with an error for good. */
int qemu_service_check(struct qemu_vm *vm, const struct op *op, struct err *e);
/* Waits for its end; fails likewise. */
int qemu_service_await(struct qemu_vm *vm, const struct op *op, struct err *e);
/* The log of the service, to the end or for ever. By any thread. */
int qemu_service_log(struct guest *g, const struct op *op, bool follow, const struct guest_io *io,
	struct err *e);
