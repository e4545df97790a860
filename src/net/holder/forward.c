#include "net/holder/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/thread/lock.h"
#include "util/thread/thread.h"

enum { CONNECTIONS_MAX = 256, PIECE = 64 * 1024 };
#define ACCEPT_AGAIN 0.1

struct listener {
	struct forward f;
	int fd;
};

struct carrier {
	struct forwards *all;
	struct forward f;
	int outer;
	pthread_t thread;
	bool ended; /* protected by the lock of struct forwards */
	struct carrier *next;
};

struct forwards {
	int (*connect)(void *arg, const struct op *op, const struct forward *f, int *ret_fd,
		struct err *e);
	void *arg;
	struct op op; /* of all threads; cancelled by forwards_free */
	int epoll;    /* the listeners, by host port; 0 stands for `ended` */
	int ended;    /* eventfd, written when a carrier has ended */
	pthread_t thread;

	struct lock mu;
	bool runs; /* the listening thread was started */
	struct listener list[FORWARDS_MAX];
	unsigned n;
	struct carrier *carriers;
	unsigned n_carriers;
};

/* ---- carrying ---- */

/* The bytes of one direction. */
struct flow {
	int from, to;
	bool ended;
	size_t at, len;
	char bytes[PIECE];
};

/* False: the connection is broken. An end of file is passed on after all bytes before it. */
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

/* Whether we expect nothing of the peer any more and can send it nothing either. */
static bool is_gone(const struct pollfd *p)
{
	return !p->events && p->revents & (POLLERR | POLLHUP);
}

static void carry(const struct op *op, int outer, int inner)
{
	auto_free struct flow *flows = calloc(2, sizeof(*flows));
	struct err ignored;

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
			if (!fds[i].events && (!flows[i].ended || flows[1 - i].ended))
				fds[i].fd = -1;
		if (op_wait_fds(op, fds, 2, &ignored) < 0 || is_gone(&fds[0]) || is_gone(&fds[1]) ||
			!flow_move(&flows[0], fds[0].revents, fds[1].revents) ||
			!flow_move(&flows[1], fds[1].revents, fds[0].revents))
			return;
	}
}

/* A peer that has ended its direction may have gone without a sign. Without keep-alive, the other
 * side could hold the connection for ever by sending nothing. */
static void keep_alive(int fd)
{
	int on = 1, idle = 60, every = 20, tries = 3;

	(void)!setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
}

static void wake(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd's write cannot fail here */
}

static void *carrier_main(void *arg)
{
	struct carrier *c = arg;
	struct forwards *all = c->all;
	auto_fd int inner = -1;
	struct err ignored; /* not reported: the client sees the connection close */

	keep_alive(c->outer);
	if (all->connect(all->arg, &all->op, &c->f, &inner, &ignored) == 0)
		carry(&all->op, c->outer, inner);
	close(c->outer);
	{
		auto_unlock struct lock *held = lock_take(&all->mu);
		c->ended = true;
	}
	wake(all->ended);
	return NULL;
}

/* ---- listening ---- */

/* Takes an ended carrier off the list, or any carrier. */
static struct carrier *take_carrier(struct forwards *all, bool any)
{
	auto_unlock struct lock *held = lock_take(&all->mu);

	for (struct carrier **at = &all->carriers; *at; at = &(*at)->next) {
		struct carrier *c = *at;

		if (any || c->ended) {
			*at = c->next;
			all->n_carriers--;
			return c;
		}
	}
	return NULL;
}

static void join_carriers(struct forwards *all, bool any)
{
	struct carrier *c;

	while ((c = take_carrier(all, any))) {
		thread_join(c->thread);
		free(c);
	}
}

/* Accepts a connection to a forwarded port; NULL: none. *ret_short: it waits, but we have no file
 * descriptor left, say. */
static struct carrier *let_in(struct forwards *all, unsigned host_port, bool *ret_short)
{
	auto_unlock struct lock *held = lock_take(&all->mu);
	struct carrier *c = NULL;

	for (unsigned i = 0; i < all->n; i++) {
		int fd;

		if (all->list[i].f.host_port != host_port)
			continue;
		fd = accept4(all->list[i].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			*ret_short = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
			return NULL;
		}
		c = all->n_carriers < CONNECTIONS_MAX ? malloc(sizeof(*c)) : NULL;
		if (!c) {
			close(fd);
			return NULL;
		}
		*c = (struct carrier){.all = all, .f = all->list[i].f, .outer = fd};
	}
	return c;
}

static void serve_one(struct forwards *all, unsigned host_port)
{
	bool is_short = false;
	struct carrier *c = let_in(all, host_port, &is_short);
	struct err ignored;

	/* The listener stays readable, so we pause before we look again. */
	if (is_short)
		op_pause(&all->op, ACCEPT_AGAIN, &ignored);
	if (!c)
		return;
	/* c may be used: only this thread (and the owner after its end) takes carriers off the
	 * list. */
	if (thread_start(&c->thread, "forward-carry", carrier_main, c, &ignored) < 0) {
		close(c->outer);
		free(c);
		return;
	}
	auto_unlock struct lock *held = lock_take(&all->mu);
	c->next = all->carriers;
	all->carriers = c;
	all->n_carriers++;
}

static void *listen_main(void *arg)
{
	struct forwards *all = arg;
	struct epoll_event events[16];
	uint64_t count;
	struct err ignored;

	while (op_wait_fd(&all->op, all->epoll, POLLIN, &ignored) == 0) {
		int n = epoll_wait(all->epoll, events, ARRAY_LEN(events), 0);

		for (int i = 0; i < n; i++) {
			if (events[i].data.u32)
				serve_one(all, events[i].data.u32);
			else if (read(all->ended, &count, sizeof(count)) > 0)
				join_carriers(all, false);
		}
	}
	return NULL;
}

static int watch(struct forwards *all, int fd, unsigned host_port, struct err *e)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = host_port};

	return epoll_ctl(all->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? err_sys(e, errno, "epoll")
								    : 0;
}

/* ---- its life ---- */

int forwards_new(int (*connect)(void *arg, const struct op *op, const struct forward *f,
			 int *ret_fd, struct err *e),
	void *arg, struct forwards **ret, struct err *e)
{
	struct forwards *all = calloc(1, sizeof(*all));

	if (!all)
		return err_oom(e);
	all->connect = connect;
	all->arg = arg;
	lock_init(&all->mu, "forwards.mu", LOCK_LEAF);
	all->op.cancel_fd = -1;
	all->epoll = epoll_create1(EPOLL_CLOEXEC);
	all->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (all->epoll < 0 || all->ended < 0) {
		err_sys(e, errno, "epoll");
		forwards_free(all);
		return -1;
	}
	if (op_init(&all->op, "forward", 0, e) < 0 || watch(all, all->ended, 0, e) < 0) {
		forwards_free(all);
		return -1;
	}
	*ret = all;
	return 0;
}

void forwards_free(struct forwards *all)
{
	if (!all)
		return;
	if (all->runs) {
		op_cancel(&all->op);
		thread_join(all->thread);
	}
	join_carriers(all, true);
	for (unsigned i = 0; i < all->n; i++)
		close(all->list[i].fd);
	if (all->epoll >= 0)
		close(all->epoll);
	if (all->ended >= 0)
		close(all->ended);
	op_done(&all->op);
	lock_done(&all->mu);
	free(all);
}

static int listen_at(unsigned host_port, int *ret_fd, unsigned *ret_port, struct err *e)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)host_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return err_sys(e, errno, "127.0.0.1:%u", host_port);
	*ret_port = ntohs(at.sin_port);
	*ret_fd = take_fd(&fd);
	return 0;
}

int forwards_add(
	struct forwards *all, const struct forward *f, unsigned *ret_host_port, struct err *e)
{
	struct listener l = {.f = *f};
	auto_fd int fd = -1;

	if (listen_at(f->host_port, &fd, &l.f.host_port, e) < 0)
		return -1;
	l.fd = fd;
	auto_unlock struct lock *held = lock_take(&all->mu);
	if (all->n == FORWARDS_MAX)
		return err_set(
			e, ERR_LIMIT, "a sandbox has at most %d forwarded ports", FORWARDS_MAX);
	if (!all->runs && thread_start(&all->thread, "forward", listen_main, all, e) < 0)
		return -1;
	all->runs = true;
	if (watch(all, fd, l.f.host_port, e) < 0)
		return -1;
	all->list[all->n++] = l;
	take_fd(&fd);
	*ret_host_port = l.f.host_port;
	return 0;
}

int forwards_remove(struct forwards *all, unsigned host_port, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&all->mu);

	for (unsigned i = 0; i < all->n; i++)
		if (all->list[i].f.host_port == host_port) {
			close(all->list[i].fd); /* which also removes it from epoll */
			memmove(&all->list[i], &all->list[i + 1],
				(--all->n - i) * sizeof(all->list[0]));
			return 0;
		}
	return err_set(e, ERR_NOT_FOUND, "port %u is not forwarded", host_port);
}

unsigned forwards_list(struct forwards *all, struct forward ret[static FORWARDS_MAX])
{
	auto_unlock struct lock *held = lock_take(&all->mu);

	for (unsigned i = 0; i < all->n; i++)
		ret[i] = all->list[i].f;
	return all->n;
}
