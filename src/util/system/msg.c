#include "util/system/msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "util/auto.h"

int msg_send(int sock, const json_t *msg, int fd, struct err *e)
{
	auto_free char *text = NULL;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov;
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (json_to_str(msg, &text, e) < 0)
		return -1;
	iov = (struct iovec){text, strlen(text)};
	if (iov.iov_len > MSG_SIZE_MAX)
		return err_set(e, ERR_LIMIT, "a message of %zu bytes", iov.iov_len);
	if (fd >= 0) {
		m.msg_control = control.room;
		m.msg_controllen = sizeof(control.room);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	if (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		return err_sys(e, errno, "a helper process");
	return 0;
}

static int take_fd_of(struct msghdr *m)
{
	int fd = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

int msg_recv(const struct op *op, int sock, json_t **ret, int *ret_fd, struct err *e)
{
	auto_free char *text = malloc(MSG_SIZE_MAX);
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = {text, MSG_SIZE_MAX};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_LEN(sizeof(int))}; /* the kernel drops further fds */
	auto_fd int fd = -1;
	ssize_t n;

	if (!text)
		return err_oom(e);
	if (op_wait_fd(op, sock, POLLIN, e) < 0)
		return -1;
	n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0 && errno != ECONNRESET)
		return err_sys(e, errno, "a helper process");
	if (n <= 0)
		return err_set(e, ERR_UNAVAILABLE, "the helper process has ended");
	fd = take_fd_of(&m);
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return err_set(e, ERR_INTERNAL, "a message to or from a helper process was cut");
	if (json_parse_object((struct bytes){(uint8_t *)text, (size_t)n}, ret, e) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	return 0;
}
