/* disk.h - the files of a VM that a snapshot copies. Blocks on files only. By the VM's owner. */
#pragma once

#include "driver/qemu/vm/vm.h"

/* Copies overlay and UEFI variables of the VM from one directory to another, over what is there.
 * The file system shares the data if it can. */
int qemu_disk_copy(const struct qemu_vm *vm, const struct op *op, const char *from, const char *to,
	struct err *e);
/* Links the cloud-init disk, which never changes, into the directory of another VM. */
int qemu_disk_link_seed(const struct qemu_vm *from, const struct qemu_vm *to, struct err *e);
/* How much the VM has written, as its overlay takes it of the disk. */
unsigned long long qemu_disk_bytes(const struct qemu_vm *vm);
