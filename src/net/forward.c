#include "net/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/io.h"

enum { CONNECTIONS_MAX = 256, CONNECT_SECONDS = 20, PIECE = 64 * 1024, STACK = 128 * 1024 };

static atomic_uint connections;

int forward_add(struct forwards *all, int netns, uint32_t addr, unsigned port, unsigned host_port,
	unsigned *ret_port, struct err *e)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)host_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (all->n == FORWARDS_MAX)
		return err_set(
			e, ERR_LIMIT, "a sandbox has at most %d forwarded ports", FORWARDS_MAX);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return err_sys(e, errno, "127.0.0.1:%u", host_port);
	*ret_port = ntohs(at.sin_port);
	all->list[all->n++] = (struct forward){.fd = take_fd(&fd),
		.netns = netns,
		.addr = addr,
		.port = port,
		.host_port = *ret_port};
	return 0;
}

int forward_remove(struct forwards *all, unsigned host_port, struct err *e)
{
	for (unsigned i = 0; i < all->n; i++)
		if (all->list[i].host_port == host_port) {
			close(all->list[i].fd);
			all->list[i] = all->list[--all->n];
			return 0;
		}
	return err_set(e, ERR_NOT_FOUND, "port %u is not forwarded", host_port);
}

struct carrier {
	struct forward f;
	int outer;
};

static int connect_inside(const struct forward *f, int *ret, struct err *e)
{
	struct op op = op_for_cleanup(CONNECT_SECONDS);
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)f->port),
		.sin_addr.s_addr = htonl(f->addr)};
	auto_fd int fd = -1;
	int failed = 0;
	socklen_t len = sizeof(failed);

	if (setns(f->netns, CLONE_NEWNET) < 0)
		return err_sys(e, errno, "network namespace");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, errno, "socket");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return err_sys(e, errno, "connect");
	if (op_wait_fd(&op, fd, POLLOUT, e) < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0 || failed)
		return err_sys(e, failed, "connect");
	*ret = take_fd(&fd);
	return 0;
}

/* Bytes on their way in one direction. */
struct flow {
	int from, to;
	bool ended;
	size_t at, len;
	char bytes[PIECE];
};

/* false: broken. An end is passed on when everything before it was. */
static bool flow_move(struct flow *w, short from_ready, short to_ready)
{
	ssize_t n;

	if (!w->len && !w->ended && from_ready) {
		n = recv(w->from, w->bytes, sizeof(w->bytes), 0);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		if (n > 0) {
			w->at = 0;
			w->len = (size_t)n;
			to_ready = 1;
		} else if (n == 0) {
			w->ended = true;
			shutdown(w->to, SHUT_WR);
		}
	}
	if (w->len && to_ready) {
		n = send(w->to, w->bytes + w->at, w->len, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		if (n > 0) {
			w->at += (size_t)n;
			w->len -= (size_t)n;
		}
	}
	return true;
}

static void carry(int outer, int inner)
{
	auto_free struct flow *flows = calloc(2, sizeof(*flows));

	if (!flows)
		return;
	flows[0].from = flows[1].to = outer;
	flows[1].from = flows[0].to = inner;
	while (!flows[0].ended || !flows[1].ended) {
		struct pollfd fds[2] = {{.fd = outer}, {.fd = inner}};

		for (unsigned i = 0; i < 2; i++) {
			if (flows[i].len)
				fds[1 - i].events |= POLLOUT;
			else if (!flows[i].ended)
				fds[i].events |= POLLIN;
		}
		for (unsigned i = 0; i < 2; i++)
			if (!fds[i].events)
				fds[i].fd = -1;
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return;
		if (!flow_move(&flows[0], fds[0].revents, fds[1].revents) ||
			!flow_move(&flows[1], fds[1].revents, fds[0].revents))
			return;
	}
}

static void *carrier_main(void *arg)
{
	auto_free struct carrier *c = arg;
	auto_fd int inner = -1;
	struct err ignored; /* the client sees the connection close */

	if (connect_inside(&c->f, &inner, &ignored) == 0)
		carry(c->outer, inner);
	close(c->outer);
	atomic_fetch_sub(&connections, 1);
	return NULL;
}

void forward_accept(const struct forward *f)
{
	int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct carrier *c;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (fd < 0)
		return;
	c = malloc(sizeof(*c));
	if (!c || atomic_fetch_add(&connections, 1) >= CONNECTIONS_MAX) {
		if (c)
			atomic_fetch_sub(&connections, 1);
		free(c);
		close(fd);
		return;
	}
	*c = (struct carrier){.f = *f, .outer = fd};
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, carrier_main, c);
	pthread_attr_destroy(&attr);
	if (rc) {
		atomic_fetch_sub(&connections, 1);
		close(fd);
		free(c);
	}
}
