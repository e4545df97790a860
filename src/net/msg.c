#include "net/msg.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/holder.h"
#include "util/auto.h"

int net_msg_send(int sock, const json_t *msg, int fd, struct err *e)
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
	if (iov.iov_len > HOLDER_MESSAGE_MAX)
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
		return err_sys(e, errno, "the network's holder");
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

int net_msg_recv(const struct op *op, int sock, json_t **ret, int *ret_fd, struct err *e)
{
	auto_free char *text = malloc(HOLDER_MESSAGE_MAX);
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = {text, HOLDER_MESSAGE_MAX};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	auto_fd int fd = -1;
	ssize_t n;

	if (!text)
		return err_oom(e);
	if (op_wait_fd(op, sock, POLLIN, e) < 0)
		return -1;
	n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0 && errno != ECONNRESET)
		return err_sys(e, errno, "the network's holder");
	if (n <= 0)
		return err_set(e, ERR_UNAVAILABLE, "the network's holder has ended");
	fd = take_fd_of(&m);
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return err_set(
			e, ERR_INTERNAL, "a message to or from the network's holder was cut");
	if (json_parse_object((struct bytes){(uint8_t *)text, (size_t)n}, ret, e) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	return 0;
}

int net_memfd(const char *name, const void *p, size_t n, int *ret, struct err *e)
{
	auto_fd int fd = memfd_create(name, MFD_CLOEXEC);
	const char *at = p;

	if (fd < 0)
		return err_sys(e, errno, "memfd");
	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0)
			return err_sys(e, errno, "memfd");
		at += done;
		n -= (size_t)done;
	}
	*ret = take_fd(&fd);
	return 0;
}

int net_memfd_read(int fd, size_t max, struct buf *ret, struct err *e)
{
	struct stat st;
	off_t at = 0;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "memfd");
	if ((uintmax_t)st.st_size > max)
		return err_set(e, ERR_LIMIT, "more than %zu bytes", max);
	while (at < st.st_size) {
		size_t want = (size_t)(st.st_size - at);
		uint8_t *room = buf_room(ret, want);
		ssize_t n = room ? pread(fd, room, want, at) : -1;

		if (!room)
			return err_oom(e);
		if (n < 0)
			return err_sys(e, errno, "memfd");
		if (n == 0)
			break;
		buf_grew(ret, (size_t)n);
		at += n;
	}
	return 0;
}
