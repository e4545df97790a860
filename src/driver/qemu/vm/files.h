/* files.h - the files of the spec that are in a VM when it boots. By the VM's owner. */
#pragma once

#include "driver/qemu/vm/vm.h"
#include "wire/sha256.h"

/* The image that puts files onto disks. */
#define FILES_HELPER "tiny"

/* Puts the files onto the VM's new disk. */
int qemu_files_put(struct qemu_vm *vm, const struct op *op, struct err *e);
/* For a VM without a disk: makes an initramfs that has the files, too. For one made of a container
 * image: one that has our init. */
int qemu_files_initrd(const struct qemu_vm *vm, struct err *e);
/* The initramfs that the VM starts with: that one, its template's, or the image's. */
int qemu_files_initrd_path(const struct qemu_vm *vm, char **ret, struct err *e);

/* In the directory of a template of a container's VM: its initramfs. */
#define TEMPLATE_INITRD "initrd"
/* The files as an archive, with its end, even if there are none; added to ret. */
int qemu_files_pack(const struct qemu_vm *vm, struct buf *ret, struct err *e);
/* The checksum of all that matters of the files, for a template's key. */
int qemu_files_sum(const struct vm_spec *spec, char ret[SHA256_HEX + 1], struct err *e);
