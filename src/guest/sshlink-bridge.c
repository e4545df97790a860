#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/sshlink-stream.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/lock.h"

#define TICK       1.0  /* seconds; for keeping alive, and should libssh hold something back */
#define SOON       0.01 /* seconds, see stream_hurries */
#define KEEP_ALIVE 15.0

enum { STACK = 256 * 1024 };

struct sshlink_bridge {
	struct sshlink *link;
	struct op op;
	int wake; /* eventfd: somebody dials */
	pthread_t thread;
	int64_t last_sign;
	struct sshlink_stream runner, *tunnels; /* the thread's */

	pthread_mutex_t mu;
	struct sshlink_stream *dialled; /* not yet seen by the thread */
	unsigned n_tunnels;             /* with those */
	bool ended;
};

/* ---- the thread ---- */

static void keep_alive(struct sshlink_bridge *b)
{
	int64_t now = now_ns();

	if (now - b->last_sign < (int64_t)(KEEP_ALIVE * 1e9))
		return;
	b->last_sign = now;
	ssh_send_ignore(b->link->session, "moat"); /* TCP tells us if nobody gets it */
}

static void tunnel_free(struct sshlink_bridge *b, struct sshlink_stream *s)
{
	stream_close(s);
	free(s);
	auto_unlock pthread_mutex_t *held = lock_take(&b->mu);
	b->n_tunnels--;
}

/* Those who dialled since the last time. */
static void take_dialled(struct sshlink_bridge *b)
{
	struct sshlink_stream *fresh;
	uint64_t count;

	if (read(b->wake, &count, sizeof(count)) < 0)
		return;
	{
		auto_unlock pthread_mutex_t *held = lock_take(&b->mu);
		fresh = take_ptr(&b->dialled);
	}
	for (struct sshlink_stream *s = fresh, *next; s; s = next) {
		next = s->next;
		s->channel = ssh_channel_new(b->link->session);
		if (!s->channel) {
			tunnel_free(b, s);
			continue;
		}
		s->next = b->tunnels;
		b->tunnels = s;
	}
}

static void move_tunnels(struct sshlink_bridge *b, bool *moved)
{
	struct sshlink_stream **at = &b->tunnels;

	while (*at) {
		struct sshlink_stream *s = *at;
		int rc = s->opening ? stream_open(b->link, s, moved) : stream_move(s, moved);

		if (rc < 0) {
			*at = s->next;
			tunnel_free(b, s);
		} else {
			at = &s->next;
		}
	}
}

enum { AT_SSH, AT_WAKE, AT_RUNNER, AT_TUNNELS };

/* Notes which sockets have nobody at their other end: poll would tell of it for ever. */
static void note_hang_ups(struct sshlink_bridge *b, const struct pollfd *fds)
{
	unsigned i = AT_TUNNELS;

	for (struct sshlink_stream *s = b->tunnels; s; s = s->next, i++)
		if (fds[i].revents & (POLLHUP | POLLERR) && !s->opening)
			s->hung_up = true;
}

static int await_bytes(struct sshlink_bridge *b)
{
	struct pollfd fds[AT_TUNNELS + SSHLINK_DIALS_MAX];
	ssh_session session = b->link->session;
	bool wants = stream_wants(&b->runner);
	double patience = stream_hurries(&b->runner) ? SOON : TICK;
	unsigned n = AT_TUNNELS;
	struct op tick;
	struct err e;

	if (stream_ready(&b->runner))
		return op_check(&b->op, &e);
	fds[AT_WAKE] = (struct pollfd){.fd = b->wake, .events = POLLIN};
	fds[AT_RUNNER] = (struct pollfd){.fd = b->runner.fd, .events = stream_events(&b->runner)};
	for (struct sshlink_stream *s = b->tunnels; s; s = s->next) {
		short events = stream_events(s);

		if (stream_ready(s))
			return op_check(&b->op, &e);
		wants |= s->opening || stream_wants(s);
		if (stream_hurries(s))
			patience = SOON;
		fds[n++] = (struct pollfd){.fd = s->hung_up ? -1 : s->fd, .events = events};
	}
	fds[AT_SSH] = (struct pollfd){.fd = ssh_get_fd(session), .events = wants ? POLLIN : 0};
	if (ssh_get_poll_flags(session) & SSH_WRITE_PENDING)
		fds[AT_SSH].events |= POLLOUT;
	tick = op_within(&b->op, patience);
	if (op_wait_fds(&tick, fds, n, &e) < 0)
		return e.kind == ERR_TIMEOUT ? 0 : -1;
	note_hang_ups(b, fds);
	return 0;
}

static void *bridge_main(void *arg)
{
	struct sshlink_bridge *b = arg;
	struct err e;

	pthread_setname_np(pthread_self(), "moat-ssh");
	for (;;) {
		bool moved = false;

		take_dialled(b);
		/* Without the runner the rest is of no use to anybody. */
		if (stream_move(&b->runner, &moved) < 0 || b->runner.fd_ended || b->runner.fd_shut)
			break;
		move_tunnels(b, &moved);
		keep_alive(b);
		if ((moved ? op_check(&b->op, &e) : await_bytes(b)) < 0)
			break;
	}
	shutdown(b->runner.fd, SHUT_RDWR); /* the line learns of it */
	{
		auto_unlock pthread_mutex_t *held = lock_take(&b->mu);
		b->ended = true;
	}
	while (b->tunnels) {
		struct sshlink_stream *s = b->tunnels;

		b->tunnels = s->next;
		tunnel_free(b, s);
	}
	return NULL;
}

/* ---- its life ---- */

static void release(struct sshlink_bridge *b)
{
	for (struct sshlink_stream *s = b->dialled, *next; s; s = next) {
		next = s->next;
		stream_close(s);
		free(s);
	}
	b->runner.channel = NULL; /* the link's */
	stream_close(&b->runner);
	sshlink_close(b->link);
	op_done(&b->op);
	if (b->wake >= 0)
		close(b->wake);
	pthread_mutex_destroy(&b->mu);
	free(b);
}

static int start_thread(struct sshlink_bridge *b, struct err *e)
{
	pthread_attr_t attr;
	int eno;

	pthread_attr_init(&attr);
	eno = pthread_attr_setstacksize(&attr, STACK);
	if (!eno)
		eno = pthread_create(&b->thread, &attr, bridge_main, b);
	pthread_attr_destroy(&attr);
	return eno ? err_sys(e, eno, "start a thread") : 0;
}

static int make_pair(int pair[2], struct err *e)
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0
		       ? err_sys(e, errno, "socketpair")
		       : 0;
}

int sshlink_bridge(struct sshlink **l, struct sshlink_bridge **ret, int *ret_fd, struct err *e)
{
	struct sshlink_bridge *b = calloc(1, sizeof(*b));
	int pair[2];

	if (!b)
		return err_oom(e);
	b->runner.fd = -1;
	b->op.cancel_fd = -1;
	b->last_sign = now_ns();
	pthread_mutex_init(&b->mu, NULL);
	b->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->wake < 0 || make_pair(pair, e) < 0) {
		if (b->wake < 0)
			err_sys(e, errno, "eventfd");
		release(b);
		return -1;
	}
	b->runner.fd = pair[0];
	b->runner.channel = (*l)->channel;
	b->link = *l;
	if (op_init(&b->op, "ssh", 0, e) < 0 || start_thread(b, e) < 0) {
		b->link = NULL; /* still the caller's */
		close(pair[1]);
		release(b);
		return -1;
	}
	*l = NULL;
	*ret = b;
	*ret_fd = pair[1];
	return 0;
}

void sshlink_bridge_free(struct sshlink_bridge *b)
{
	if (!b)
		return;
	op_cancel(&b->op);
	pthread_join(b->thread, NULL);
	release(b);
}

/* ---- dialling ---- */

static int submit(struct sshlink_bridge *b, struct sshlink_stream *s, struct err *e)
{
	uint64_t one = 1;
	auto_unlock pthread_mutex_t *held = lock_take(&b->mu);

	if (b->ended)
		return err_set(e, ERR_UNAVAILABLE, "the SSH connection has ended");
	if (b->n_tunnels == SSHLINK_DIALS_MAX)
		return err_set(
			e, ERR_LIMIT, "the SSH connection carries %u others already", b->n_tunnels);
	b->n_tunnels++;
	s->next = b->dialled;
	b->dialled = s;
	if (write(b->wake, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
	return 0;
}

static int hear_answer(const struct op *op, int fd, unsigned port, struct err *e)
{
	uint8_t word;

	if (io_read_exact(op, fd, &word, 1, e) < 0)
		return err_wrap(e, "port %u of the guest", port);
	if (word == STREAM_IS_OPEN)
		return 0;
	if (word == STREAM_PROHIBITED)
		return err_set(e, ERR_UNSUPPORTED,
			"the guest's SSH server does not allow forwarding (AllowTcpForwarding)");
	err_set(e, ERR_UNAVAILABLE, "nobody listens at port %u of the guest", port);
	e->sys = ECONNREFUSED;
	return -1;
}

int sshlink_dial(struct sshlink_bridge *b, const struct op *op, const char *host, unsigned port,
	int *ret_fd, struct err *e)
{
	struct sshlink_stream *s = calloc(1, sizeof(*s));
	auto_fd int fd = -1;
	int pair[2];

	if (!s)
		return err_oom(e);
	if (make_pair(pair, e) < 0) {
		free(s);
		return -1;
	}
	fd = pair[1];
	*s = (struct sshlink_stream){.fd = pair[0], .opening = true, .port = port};
	snprintf(s->host, sizeof(s->host), "%s", host);
	if (submit(b, s, e) < 0) {
		stream_close(s);
		free(s);
		return -1;
	}
	if (hear_answer(op, fd, port, e) < 0)
		return -1;
	*ret_fd = take_fd(&fd);
	return 0;
}
