#include "util/system/msg.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"
#include "util/auto.h"

static unsigned open_files(void)
{
	auto_dir DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	return n;
}

/* Sends "{}" with n copies of a file descriptor. */
static void send_fds(int sock, size_t n)
{
	char control[CMSG_SPACE(4 * sizeof(int))] __attribute__((aligned(8))) = {0};
	struct iovec iov = {(char *)"{}", 2};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &sock, sizeof(int));
	if (sendmsg(sock, &m, 0) != 2)
		abort();
}

/* Returns what msg_recv does; *ret_more: how many more files are open afterwards. */
static int receive(size_t n, int *ret_more, struct err *e)
{
	struct op op = op_for_cleanup(10);
	auto_json json_t *msg = NULL;
	int fds[2], fd = -1, rc;
	unsigned before;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		abort();
	before = open_files();
	send_fds(fds[0], n);
	rc = msg_recv(&op, fds[1], &msg, &fd, e);
	*ret_more = (int)(open_files() - before);
	if (fd >= 0)
		close(fd);
	close(fds[0]);
	close(fds[1]);
	return rc;
}

int main(void)
{
	struct err e;
	int more;

	OK(receive(1, &more, &e) == 0 && more == 1);
	for (size_t n = 2; n <= 4; n++) {
		tap_ok(receive(n, &more, &e) < 0, "%zu file descriptors are refused", n);
		tap_ok(more == 0, "and none stays open: %d", more);
	}
	return tap_done();
}
