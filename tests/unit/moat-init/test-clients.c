/* Whoever asks process 1 something, and goes away in the middle of it. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "moat-init/init.h"
#include "tap.h"

/* The service, as clients see it. */
const char *service_take(struct init *in, char *record, size_t len, char *why, size_t size)
{
	(void)in, (void)record, (void)len, (void)why, (void)size;
	return "there is a service already";
}

static struct init in;

/* A client that has sent this, and has hung up. */
static struct client *gone_after(const char *sent)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return NULL;
	in.clients[0] = (struct client){.fd = pair[0]};
	OK(write(pair[1], sent, strlen(sent)) == (ssize_t)strlen(sent));
	close(pair[1]);
	errno = EAGAIN; /* as the last read of something else has left it */
	client_ready(&in, &in.clients[0], POLLIN | POLLHUP);
	return &in.clients[0];
}

static void test_gone(void)
{
	static const char *const sent[] = {"", "sta", "start 100\nabc", "start 3\nabc", "what\n"};

	for (size_t i = 0; i < sizeof(sent) / sizeof(*sent); i++) {
		struct client *c = gone_after(sent[i]);

		tap_ok(c && c->fd == -1, "client %zu is forgotten: it is gone", i);
	}
}

int main(void)
{
	test_gone();
	return tap_done();
}
