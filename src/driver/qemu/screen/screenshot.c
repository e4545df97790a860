#include "driver/qemu/screen/screenshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/json.h"
#include "util/system/io.h"

enum { DUMP_MAX = 64 * 1024 * 1024 }; /* a card has 16 MiB, of a byte a pixel at least */

/* QEMU may open no path of ours, so it gets a memory file. It wants a file that is open for writing
 * only. */
static int write_only(int memfd, struct err *e)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "%s", path) : fd;
}

int qemu_need_display(const struct qemu_vm *vm, struct err *e)
{
	if (vm->spec->vga != SPEC_VGA_NONE)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "VM %s has no display: set `vga: std` in its spec",
		vm->spec->name);
}

/* As PPM: it is ours to compress, so QEMU's main thread need not, and the guest goes on sooner. */
static int dump(struct qemu_vm *vm, const struct op *op, json_int_t set, struct err *e)
{
	char name[48];

	snprintf(name, sizeof(name), "/dev/fdset/%lld", (long long)set);
	return qmp_call(
		vm->qmp, op, "screendump", json_pack("{s:s}", "filename", name), -1, NULL, e);
}

int qemu_screenshot(struct qemu_vm *vm, const struct op *op, struct picture *ret, struct err *e)
{
	auto_fd int memfd = memfd_create("moat-screenshot", MFD_CLOEXEC);
	auto_fd int writer = -1;
	auto_json json_t *set = NULL;
	auto_buf struct buf ppm = {0};
	struct op soon = op_within(op, 30), cleanup = op_for_cleanup(10);
	struct err ignored;
	json_int_t id;
	int rc;

	if (qemu_need_display(vm, e) < 0 || qemu_vm_alive(vm, e) < 0)
		return -1;
	if (memfd < 0)
		return err_sys(e, errno, "memfd");
	writer = write_only(memfd, e);
	if (writer < 0 || qmp_call(vm->qmp, &soon, "add-fd", NULL, writer, &set, e) < 0)
		return qemu_vm_explain(vm, e);
	id = json_integer_value(json_object_get(set, "fdset-id"));
	rc = dump(vm, &soon, id, e);
	if (rc == 0)
		rc = file_read_all(memfd, DUMP_MAX, &ppm, e);
	/* QEMU keeps the file, and what is in it, until it is told not to. */
	if (qmp_call(vm->qmp, &cleanup, "remove-fd", json_pack("{s:I}", "fdset-id", id), -1, NULL,
		    rc < 0 ? &ignored : e) < 0)
		rc = -1;
	if (rc < 0)
		return qemu_vm_explain(vm, e);
	return picture_from_ppm(buf_bytes(&ppm), ret, e);
}
