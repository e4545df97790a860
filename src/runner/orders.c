#include "runner/orders.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(ORDER_FDS_MAX * sizeof(int))];
};

int order_send(int socket, enum order order, const int *fds, size_t n)
{
	union control control;
	uint8_t byte = (uint8_t)order;
	struct iovec iov = {&byte, sizeof(byte)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int list[ORDER_FDS_MAX];
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			list[used++] = fds[i];
	if (used) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(used * sizeof(int));
		memcpy(CMSG_DATA(&control.head), list, used * sizeof(int));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(used * sizeof(int));
	}
	return sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

int order_receive(int socket, enum order order, int *ret_fds, size_t n)
{
	union control control;
	uint8_t byte;
	struct iovec iov = {&byte, sizeof(byte)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c;
	ssize_t got;

	do
		got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got <= 0 || byte != order)
		return -1;
	for (size_t i = 0; i < n; i++)
		ret_fds[i] = -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_len <= CMSG_LEN(n * sizeof(int)))
		memcpy(ret_fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return 0;
}
