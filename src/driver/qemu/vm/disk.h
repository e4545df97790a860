/* qemu-disk.h - the files of a VM as a snapshot has them. Blocks on files only. */
#pragma once

#include "driver/qemu-vm.h"

/* Copies overlay and UEFI variables of the VM from one directory to another, over what is there.
 * The file system shares the data if it can. */
int qemu_disk_copy(const struct qemu_vm *vm, const struct op *op, const char *from, const char *to,
	struct err *e);
/* The cloud-init disk, which never changes, is in both. */
int qemu_disk_link_seed(const struct qemu_vm *from, const struct qemu_vm *to, struct err *e);
/* What the VM has written. */
unsigned long long qemu_disk_bytes(const struct qemu_vm *vm);
unsigned long long qemu_dir_bytes(const char *dir);
