#include "driver/qemu/screen/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "driver/qemu/screen/screenshot.h"
#include "util/auto.h"
#include "util/str.h"

int qemu_screen_open(struct qemu_vm *vm, const struct op *op, int *ret_fd, struct err *e)
{
	struct op soon = op_within(op, QEMU_ANSWER_SECONDS), cleanup = op_for_cleanup(10);
	int ends[2];
	char name[32] = "screen-"; /* QEMU takes no name that begins with a digit */

	if (qemu_need_display(vm, e) < 0 || qemu_vm_alive(vm, e) < 0 ||
		str_random_hex(8, name + strlen(name), e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_sys(e, errno, "a socket for the screen");
	auto_fd int ours = ends[0], theirs = ends[1];
	/* Only QEMU's monitor can name this file, and the name is gone once the client is added. */
	if (qmp_call(vm->qmp, &soon, "getfd", json_pack("{s:s}", "fdname", name), theirs, NULL, e) <
		0)
		return qemu_vm_explain(vm, e);
	if (qmp_call(vm->qmp, &soon, "add_client",
		    json_pack(
			    "{s:s, s:s, s:b}", "protocol", "vnc", "fdname", name, "skipauth", true),
		    -1, NULL, e) < 0) {
		struct err ignored;

		(void)qmp_call(vm->qmp, &cleanup, "closefd", json_pack("{s:s}", "fdname", name), -1,
			NULL, &ignored);
		return qemu_vm_explain(vm, e);
	}
	*ret_fd = take_fd(&ours);
	return 0;
}
