#include "web/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/client/start.h"
#include "util/auto.h"
#include "util/str.h"
#include "web/visitor.h"

enum {
	VISITORS_MAX = 128, /* each has two sockets: see OP_FDS_MAX */
	LINKED_MAX = 64,    /* the daemon serves 128 connections of all clients */
	BACKLOG = 128,
	FIXED_FDS = 3,
};

#define TICK_SECONDS 1.0
#define LINK_SECONDS 0.2

struct server {
	struct server_options options;
	struct visit_rules rules;
	struct op op;
	int listener;
	struct visitor *visitors[VISITORS_MAX]; /* the oldest first */
	unsigned n;
	int64_t looked_ns; /* when a page was open last */
};

static int link_to_daemon(void *arg, int *ret_fd, struct err *e)
{
	struct server *s = arg;
	struct op soon = op_within(&s->op, LINK_SECONDS);

	return daemon_connect(&soon, s->options.paths, ret_fd, e);
}

static int listen_at(struct server *s, struct err *e)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)s->options.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int one = 1;

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listener < 0)
		return err_sys(e, errno, "socket");
	if (setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		bind(s->listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		listen(s->listener, BACKLOG) < 0 ||
		getsockname(s->listener, (struct sockaddr *)&at, &len) < 0)
		return err_sys(e, errno, "port %u of 127.0.0.1", s->options.port);
	s->rules.port = ntohs(at.sin_port);
	return 0;
}

int server_new(const struct server_options *options, struct server **ret, struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return err_oom(e);
	s->options = *options;
	s->listener = -1;
	s->op = (struct op){.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1, .id = "web"};
	s->rules = (struct visit_rules){
		.read_only = options->read_only, .link = link_to_daemon, .arg = s};
	s->looked_ns = now_ns();
	if (listen_at(s, e) < 0 || str_random_hex(TOKEN_BYTES, s->rules.token, e) < 0) {
		server_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->n; i++)
		visitor_free(s->visitors[i]);
	if (s->listener >= 0)
		close(s->listener);
	explicit_bzero(s->rules.token, sizeof(s->rules.token));
	free(s);
}

void server_address(const struct server *s, char ret[ADDRESS_MAX])
{
	snprintf(ret, ADDRESS_MAX, "http://127.0.0.1:%u/#%s", s->rules.port, s->rules.token);
}

static void remove_at(struct server *s, unsigned i)
{
	visitor_free(s->visitors[i]);
	s->n--;
	memmove(s->visitors + i, s->visitors + i + 1, (s->n - i) * sizeof(s->visitors[0]));
}

/* Frees a place. False: all have the token. */
static bool make_room(struct server *s)
{
	for (unsigned i = 0; s->n == VISITORS_MAX && i < s->n; i++)
		if (s->visitors[i]->state != VISITOR_LINKED)
			remove_at(s, i);
	return s->n < VISITORS_MAX;
}

/* Lets in as many as can wait at once: whoever connects again and again must not keep the others
 * from being served. */
static void let_in(struct server *s)
{
	int one = 1, fd;
	struct visitor *v;

	for (int i = 0; i < BACKLOG; i++) {
		fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		if (!make_room(s)) {
			close(fd);
			continue;
		}
		/* A person's keys go out at once. */
		if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0) {
			close(fd);
			continue;
		}
		v = visitor_new(fd);
		if (v)
			s->visitors[s->n++] = v;
	}
}

static unsigned count_linked(const struct server *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += s->visitors[i]->state == VISITOR_LINKED;
	return n;
}

static void serve_visitors(struct server *s, const struct pollfd *fds)
{
	/* Backwards, since some go. */
	for (unsigned i = s->n; i-- > 0;) {
		s->rules.room = count_linked(s) < LINKED_MAX;
		visitor_run(s->visitors[i], &s->rules, fds + (size_t)2 * i);
		if (s->visitors[i]->state == VISITOR_GONE)
			remove_at(s, i);
	}
}

int server_run(struct server *s, struct err *e)
{
	struct pollfd fds[FIXED_FDS + 2 * VISITORS_MAX];

	_Static_assert(FIXED_FDS + 2 * VISITORS_MAX <= OP_FDS_MAX, "op waits for all of them");
	for (;;) {
		struct op tick = op_within(&s->op, TICK_SECONDS);

		fds[0] = (struct pollfd){.fd = s->options.stop_fd, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
		fds[2] = (struct pollfd){.fd = s->options.child->pidfd, .events = POLLIN};
		for (unsigned i = 0; i < s->n; i++)
			visitor_wants(s->visitors[i], fds + FIXED_FDS + (size_t)2 * i);
		if (op_wait_fds(&tick, fds, FIXED_FDS + 2 * s->n, e) < 0 && e->kind != ERR_TIMEOUT)
			return -1;
		if (fds[0].revents)
			return 0;
		serve_visitors(s, fds + FIXED_FDS);
		if (fds[1].revents)
			let_in(s);
		if (fds[2].revents)
			s->options.child_ended(s->options.child);
		if (count_linked(s))
			s->looked_ns = now_ns();
		else if ((double)(now_ns() - s->looked_ns) > s->options.idle_seconds * 1e9)
			return 0;
	}
}
