/*
 * fuzz-msg.c - messages of a helper process that has gone bad, with file descriptors: the first
 * byte says how many, the second in how many parts and whether more control messages come along.
 * Whatever comes, no file stays open but the one that the receiver was given.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FDS_MAX = 8 };

static int ends[2];

/* The lowest number that no open file has; with open files above, some would be above it. */
static int first_free(void)
{
	int fd = dup(ends[0]);

	if (fd < 0)
		abort();
	close(fd);
	return fd;
}

static void add_control(struct msghdr *m, int type, const void *p, size_t len)
{
	struct cmsghdr *c = (void *)((char *)m->msg_control + m->msg_controllen);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), p, len);
	m->msg_controllen += CMSG_SPACE(len);
}

/* Returns how many file descriptors went along; -1: the kernel took no such message. */
static int send_message(const uint8_t *data, size_t size)
{
	static char control[1024] __attribute__((aligned(8)));
	unsigned n = data[0] % (FDS_MAX + 1), split = data[1] % (FDS_MAX + 1);
	struct ucred me = {getpid(), getuid(), getgid()};
	struct iovec iov = {(void *)(data + 2), size - 2};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};
	int fds[FDS_MAX];

	memset(control, 0, sizeof(control));
	for (unsigned i = 0; i < n; i++)
		fds[i] = ends[0];
	if (data[1] & 0x80)
		add_control(&m, SCM_CREDENTIALS, &me, sizeof(me));
	if (split > n)
		split = n;
	if (split)
		add_control(&m, SCM_RIGHTS, fds, split * sizeof(int));
	if (n - split)
		add_control(&m, SCM_RIGHTS, fds, (n - split) * sizeof(int));
	if (sendmsg(ends[0], &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return -1;
	return (int)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct op op = op_for_cleanup(60);
	auto_json json_t *msg = NULL;
	struct err e;
	int fd = -2, before, sent, rc;

	if (size < 3 || size > MSG_SIZE_MAX + 1024)
		return 0;
	if (!ends[1] && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	before = first_free();
	sent = send_message(data, size);
	if (sent < 0)
		return 0;
	rc = msg_recv(&op, ends[1], &msg, &fd, &e);
	if (rc == 0 && (!json_is_object(msg) || (fd >= 0) != (sent == 1) || sent > 1))
		abort();
	if (rc < 0 && (msg || fd != -2))
		abort();
	if (fd >= 0)
		close(fd);
	if (first_free() != before)
		abort();
	return 0;
}
