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

#include "util/auto.h"
#include "util/system/confine.h"

static unsigned read_resolvers(struct sockaddr_storage servers[DNS_SERVERS_MAX])
{
	auto_file FILE *f = fopen("/etc/resolv.conf", "re");
	char line[256], text[128];
	unsigned n = 0;

	while (f && n < DNS_SERVERS_MAX && fgets(line, sizeof(line), f)) {
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

static void answer(int sock)
{
	struct sockaddr_storage servers[DNS_SERVERS_MAX];
	char question;
	unsigned n;

	if (recv(sock, &question, 1, 0) < 0)
		return;
	n = read_resolvers(servers);
	/* No message of no bytes: that would look like our end. */
	(void)!send(sock, n ? (void *)servers : "", n ? n * sizeof(servers[0]) : 1, MSG_NOSIGNAL);
}

/* Root for the holder's sake: it becomes what the holder is. Only files that all may read are
 * needed. */
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
	_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
