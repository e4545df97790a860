#include "driver/qemu/vm/disk.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sparse.h"
#include "util/auto.h"
#include "util/str.h"

static int copy_part(const struct qemu_vm *vm, const struct op *op, const char *suffix,
	const char *from, const char *to, struct err *e)
{
	auto_free char *old = NULL, *new = NULL;

	if (str_printf(&old, e, "%s/%s.%s", from, vm->spec->name, suffix) < 0 ||
		str_printf(&new, e, "%s/%s.%s", to, vm->spec->name, suffix) < 0)
		return -1;
	return sparse_clone(op, old, new, e);
}

int qemu_disk_copy(const struct qemu_vm *vm, const struct op *op, const char *from, const char *to,
	struct err *e)
{
	if (vm->image->disk && copy_part(vm, op, "qcow2", from, to, e) < 0)
		return -1;
	return vm->spec->uefi_boot ? copy_part(vm, op, "uefi-vars", from, to, e) : 0;
}

int qemu_disk_link_seed(const struct qemu_vm *from, const struct qemu_vm *to, struct err *e)
{
	auto_free char *old = NULL, *new = NULL;

	if (str_printf(&old, e, "%s/%s.seed.iso", from->dir, from->spec->name) < 0 ||
		str_printf(&new, e, "%s/%s.seed.iso", to->dir, to->spec->name) < 0)
		return -1;
	return link(old, new) < 0 ? err_sys(e, errno, "%s", new) : 0;
}

unsigned long long qemu_disk_bytes(const struct qemu_vm *vm)
{
	auto_free char *path = NULL;
	struct err ignored;
	struct stat st;

	if (!vm->image->disk ||
		str_printf(&path, &ignored, "%s/%s.qcow2", vm->dir, vm->spec->name) < 0 ||
		stat(path, &st) < 0)
		return 0;
	return (unsigned long long)st.st_blocks * 512;
}
