#include "runner/orders.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(ORDER_FDS_MAX * sizeof(int))];
};

int order_send(int socket, unsigned number, const int *fds, size_t n)
{
	union control control;
	uint8_t byte = (uint8_t)number;
	struct iovec iov = {&byte, sizeof(byte)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(n * sizeof(int))};

	memset(&control, 0, sizeof(control));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	return sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

int order_receive(int socket, int *ret_fds, size_t n)
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
	c = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (!c || c->cmsg_len != CMSG_LEN(n * sizeof(int)))
		return -1;
	memcpy(ret_fds, CMSG_DATA(c), n * sizeof(int));
	return byte;
}
