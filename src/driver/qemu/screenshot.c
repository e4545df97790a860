#include "driver/qemu/screenshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/json.h"

enum { PNG_MAX = 64 * 1024 * 1024 };

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

static int read_all(int memfd, struct buf *ret, struct err *e)
{
	struct stat st;
	uint8_t *room;
	ssize_t n;

	if (fstat(memfd, &st) < 0)
		return err_sys(e, errno, "screenshot");
	if (st.st_size <= 0 || st.st_size > PNG_MAX)
		return err_set(e, ERR_BACKEND, "QEMU wrote a screenshot of %lld bytes",
			(long long)st.st_size);
	room = buf_room(ret, (size_t)st.st_size);
	if (!room)
		return err_oom(e);
	n = pread(memfd, room, (size_t)st.st_size, 0);
	if (n != st.st_size)
		return err_set(e, ERR_BACKEND, "the screenshot is cut short");
	buf_grew(ret, (size_t)n);
	return 0;
}

int qemu_screenshot(struct qemu_vm *vm, const struct op *op, struct buf *ret, struct err *e)
{
	auto_fd int memfd = memfd_create("moat-screenshot", MFD_CLOEXEC);
	auto_fd int writer = -1;
	auto_json json_t *set = NULL;
	struct op soon = op_within(op, 30), cleanup = op_for_cleanup(10);
	struct err ignored;
	json_int_t id;
	int rc;

	if (vm->spec->vga == SPEC_VGA_NONE)
		return err_set(e, ERR_UNSUPPORTED,
			"VM %s has no display: set `vga: std` in its spec", vm->spec->name);
	if (qemu_vm_alive(vm, e) < 0)
		return -1;
	if (memfd < 0)
		return err_sys(e, errno, "memfd");
	writer = write_only(memfd, e);
	if (writer < 0 || qmp_call(vm->qmp, &soon, "add-fd", NULL, writer, &set, e) < 0)
		return qemu_vm_explain(vm, e);
	id = json_integer_value(json_object_get(set, "fdset-id"));
	{
		char name[48];

		snprintf(name, sizeof(name), "/dev/fdset/%lld", (long long)id);
		rc = qmp_call(vm->qmp, &soon, "screendump",
			json_pack("{s:s, s:s}", "filename", name, "format", "png"), -1, NULL, e);
	}
	if (rc == 0)
		rc = read_all(memfd, ret, e);
	/* QEMU keeps the file, and what is in it, until it is told not to. */
	if (qmp_call(vm->qmp, &cleanup, "remove-fd", json_pack("{s:I}", "fdset-id", id), -1, NULL,
		    rc < 0 ? &ignored : e) < 0)
		rc = -1;
	return rc < 0 ? qemu_vm_explain(vm, e) : 0;
}
