#include "driver/vagrant/ssh/bridge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/vagrant/ssh/stream.h"
#include "util/auto.h"
#include "util/system/msg.h"

#define TICK       1.0 /* seconds between looks: to keep alive, and in case libssh holds bytes back */
#define SOON       0.01 /* seconds, see stream_hurries */
#define KEEP_ALIVE 15.0

struct bridge {
	struct ssh_conn *conn;
	const struct op *op;
	int orders;
	int64_t last_sign;
	struct stream runner, *tunnels;
	unsigned n_tunnels;
};

static void keep_alive(struct bridge *b)
{
	int64_t now = now_ns();

	if (now - b->last_sign < (int64_t)(KEEP_ALIVE * 1e9))
		return;
	b->last_sign = now;
	ssh_send_ignore(b->conn->session, "moat"); /* TCP tells us if nobody gets it */
}

static void tunnel_free(struct bridge *b, struct stream *s)
{
	stream_close(s);
	free(s);
	b->n_tunnels--;
}

/* Takes over the socket. */
static void dial(struct bridge *b, const char *host, int port, int fd)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s) {
		close(fd); /* the caller that dials sees that */
		return;
	}
	*s = (struct stream){.fd = fd, .opening = true, .port = (unsigned)port};
	snprintf(s->host, sizeof(s->host), "%s", host);
	b->n_tunnels++;
	if (b->n_tunnels > SSH_DIALS_MAX)
		stream_answer(s, SSH_TOO_MANY);
	else
		s->channel = ssh_channel_new(b->conn->session);
	if (!s->channel) {
		tunnel_free(b, s);
		return;
	}
	s->next = b->tunnels;
	b->tunnels = s;
}

static int follow_order(struct bridge *b)
{
	auto_json json_t *order = NULL;
	auto_fd int fd = -1;
	const char *host;
	struct err e;
	int port;

	if (msg_recv(b->op, b->orders, &order, &fd, &e) < 0)
		return -1;
	if (fd >= 0 && json_get(order, "an order", &e, "{s:{s:s, s:i}}", "dial", "host", &host,
			       "port", &port) == 0)
		dial(b, host, port, take_fd(&fd));
	return 0;
}

/* Follows the orders that have come, however busy we are. -1: the daemon's end is closed. */
static int follow_orders(struct bridge *b)
{
	struct pollfd orders = {.fd = b->orders, .events = POLLIN};

	while (poll(&orders, 1, 0) > 0)
		if (follow_order(b) < 0)
			return -1;
	return 0;
}

static void move_tunnels(struct bridge *b, bool *moved)
{
	struct stream **at = &b->tunnels;

	while (*at) {
		struct stream *s = *at;
		int rc = s->opening ? stream_open(b->conn, s, moved) : stream_move(s, moved);

		if (rc < 0) {
			*at = s->next;
			tunnel_free(b, s);
		} else {
			at = &s->next;
		}
	}
}

enum { AT_SSH, AT_ORDERS, AT_RUNNER, AT_TUNNELS };

/* Notes which sockets are closed at their other end: poll would report that for ever. */
static void note_hang_ups(struct bridge *b, const struct pollfd *fds)
{
	unsigned i = AT_TUNNELS;

	for (struct stream *s = b->tunnels; s; s = s->next, i++)
		if (fds[i].revents & (POLLHUP | POLLERR) && !s->opening)
			s->hung_up = true;
}

/* Fills in what to wait for and returns how many; 0: something can be moved at once. */
static unsigned list_fds(struct bridge *b, struct pollfd *fds, double *ret_patience)
{
	ssh_session session = b->conn->session;
	bool wants = stream_wants(&b->runner);
	unsigned n = AT_TUNNELS;

	*ret_patience = stream_hurries(&b->runner) ? SOON : TICK;
	if (stream_ready(&b->runner))
		return 0;
	fds[AT_ORDERS] = (struct pollfd){.fd = b->orders, .events = POLLIN};
	fds[AT_RUNNER] = (struct pollfd){.fd = b->runner.fd, .events = stream_events(&b->runner)};
	for (struct stream *s = b->tunnels; s; s = s->next) {
		if (stream_ready(s))
			return 0;
		wants |= s->opening || stream_wants(s);
		if (stream_hurries(s))
			*ret_patience = SOON;
		fds[n++] =
			(struct pollfd){.fd = s->hung_up ? -1 : s->fd, .events = stream_events(s)};
	}
	fds[AT_SSH] = (struct pollfd){.fd = ssh_get_fd(session), .events = wants ? POLLIN : 0};
	if (ssh_get_poll_flags(session) & SSH_WRITE_PENDING)
		fds[AT_SSH].events |= POLLOUT;
	return n;
}

static int await_bytes(struct bridge *b)
{
	struct pollfd fds[AT_TUNNELS + SSH_DIALS_MAX];
	double patience;
	unsigned n = list_fds(b, fds, &patience);
	struct op tick = op_within(b->op, patience);
	struct err e;

	if (!n)
		return 0;
	if (op_wait_fds(&tick, fds, n, &e) < 0)
		return e.kind == ERR_TIMEOUT ? 0 : -1;
	note_hang_ups(b, fds);
	return 0;
}

void bridge_run(struct ssh_conn *conn, const struct op *op, int stream, int orders)
{
	struct bridge b = {.conn = conn,
		.op = op,
		.orders = orders,
		.last_sign = now_ns(),
		.runner = {.channel = conn->channel, .fd = stream}};

	for (;;) {
		bool moved = false;

		if (follow_orders(&b) < 0)
			return;
		/* When the runner has ended, the other channels are of no use. */
		if (stream_move(&b.runner, &moved) < 0 || b.runner.fd_ended || b.runner.fd_shut)
			return;
		move_tunnels(&b, &moved);
		keep_alive(&b);
		if (!moved && await_bytes(&b) < 0)
			return;
	}
}
