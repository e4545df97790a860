#include "net/holder/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/dns/asks.h"
#include "util/auto.h"
#include "util/system/confine.h"
#include "util/system/proc.h"

enum { SERVERS_MAX = 3, DNS_PORT = 53 }; /* as many as the host's own resolver uses */

static unsigned read_resolvers(struct sockaddr_storage servers[SERVERS_MAX])
{
	auto_file FILE *f = fopen("/etc/resolv.conf", "re");
	char line[256], text[128];
	unsigned n = 0;

	while (f && n < SERVERS_MAX && fgets(line, sizeof(line), f)) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)&servers[n];
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&servers[n];

		if (sscanf(line, " nameserver %127s", text) != 1)
			continue;
		memset(&servers[n], 0, sizeof(servers[n]));
		if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
			v4->sin_family = AF_INET;
			v4->sin_port = htons(DNS_PORT);
			n++;
		} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
			v6->sin6_family = AF_INET6;
			v6->sin6_port = htons(DNS_PORT);
			n++;
		}
	}
	return n;
}

/* Connects only so far that nothing has to be waited for. -1: there is no such server. */
static int connect_to_server(const struct ask_socket *ask)
{
	struct sockaddr_storage servers[SERVERS_MAX];
	unsigned n = read_resolvers(servers);
	const struct sockaddr_storage *to = &servers[n ? ask->attempt % n : 0];
	auto_fd int fd = -1;

	if (n == 0)
		return -1;
	fd = socket(to->ss_family,
		(ask->stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 ||
		(connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 && errno != EINPROGRESS))
		return -1;
	return take_fd(&fd);
}

/* If the other side does not take it, it has lost its interest. */
static void send_socket(int sock, uint32_t number, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS,
			     .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec iov = {&number, sizeof(number)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = control.room;
		m.msg_controllen = sizeof(control.room);
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	(void)!sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer(int sock)
{
	uint8_t data[sizeof(struct ask_socket) + 1]; /* one more, to see what is too long */
	ssize_t n = recv(sock, data, sizeof(data), MSG_DONTWAIT);
	struct ask_socket ask;
	auto_fd int fd = -1;

	if (n <= 0 || !ask_socket_parse((struct bytes){data, (size_t)n}, &ask))
		return;
	fd = connect_to_server(&ask);
	send_socket(sock, ask.number, fd);
}

/* If we are root, we take the holder's user id. What we still open, all users may read. */
static int give_up_rights(uid_t id)
{
	pid_t guard = getppid();

	if (id == 0 || confine_rights(id, CONFINE_NO_GROUP) < 0 || confine_calls(false) < 0)
		return id == 0 ? 0 : -1;
	/* The change of user has cleared this. */
	return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != guard ? -1 : 0;
}

static void serve(pid_t holder, int sock, uid_t id)
{
	struct pollfd fds[] = {{.fd = (int)syscall(SYS_pidfd_open, holder, 0), .events = POLLIN},
		{.fd = sock, .events = POLLIN}};

	if (fds[0].fd < 0 || give_up_rights(id) < 0)
		return;
	while (!fds[0].revents && !(fds[1].revents & (POLLHUP | POLLERR))) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			return;
		if (fds[1].revents & POLLIN)
			answer(sock);
	}
}

void outside_main(pid_t holder, int sock, uid_t id)
{
	int status = 0;

	serve(holder, sock, id);
	close(sock); /* the holder fails to resolve names, or to begin */
	while (waitpid(holder, &status, 0) < 0 && errno == EINTR)
		;
	_exit(proc_code_of(status));
}
