#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/sshlink-parts.h"
#include "util/auto.h"
#include "util/io.h"

#define TICK       1.0 /* seconds; for keeping alive, and should libssh hold something back */
#define KEEP_ALIVE 15.0

enum { PIECE = 32 * 1024, HELD_MAX = 256 * 1024, STACK = 256 * 1024 };

struct sshlink_bridge {
	struct sshlink *link;
	int fd; /* our end of the socket */
	struct op op;
	pthread_t thread;
	struct buf to_line, to_ssh;
	int64_t last_sign;
};

/* Takes what has come from the guest; -1 at the end. */
static int from_guest(struct sshlink_bridge *b)
{
	uint8_t nowhere[4096];

	while (b->to_line.len < HELD_MAX) {
		uint8_t *room = buf_room(&b->to_line, PIECE);
		int got =
			room ? ssh_channel_read_nonblocking(b->link->channel, room, PIECE, 0) : -1;

		if (got == 0 || got == SSH_AGAIN)
			break;
		if (got < 0)
			return -1;
		buf_grew(&b->to_line, (size_t)got);
	}
	/* Its stderr would fill the window of the channel. */
	while (ssh_channel_read_nonblocking(b->link->channel, nowhere, sizeof(nowhere), 1) > 0)
		;
	return ssh_channel_is_eof(b->link->channel) && !b->to_line.len ? -1 : 0;
}

static int to_line(struct sshlink_bridge *b)
{
	while (b->to_line.len) {
		ssize_t n = send(
			b->fd, buf_data(&b->to_line), b->to_line.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		buf_drop(&b->to_line, (size_t)n);
	}
	return 0;
}

static int from_line(struct sshlink_bridge *b)
{
	while (!b->to_ssh.len) {
		uint8_t *room = buf_room(&b->to_ssh, PIECE);
		ssize_t n = room ? recv(b->fd, room, PIECE, MSG_DONTWAIT) : -1;
		int sent;

		if (n < 0)
			return room && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
		if (n == 0)
			return -1;
		buf_grew(&b->to_ssh, (size_t)n);
		sent = ssh_channel_write(
			b->link->channel, buf_data(&b->to_ssh), (uint32_t)b->to_ssh.len);
		if (sent < 0 && sent != SSH_AGAIN)
			return -1;
		if (sent > 0)
			buf_drop(&b->to_ssh, (size_t)sent);
	}
	return 0;
}

/* What the channel's window did not take the last time. */
static int retry_write(struct sshlink_bridge *b)
{
	int sent = b->to_ssh.len ? ssh_channel_write(b->link->channel, buf_data(&b->to_ssh),
					   (uint32_t)b->to_ssh.len)
				 : 0;

	if (sent < 0 && sent != SSH_AGAIN)
		return -1;
	if (sent > 0)
		buf_drop(&b->to_ssh, (size_t)sent);
	return 0;
}

static void keep_alive(struct sshlink_bridge *b)
{
	int64_t now = now_ns();

	if (now - b->last_sign < (int64_t)(KEEP_ALIVE * 1e9))
		return;
	b->last_sign = now;
	ssh_send_ignore(b->link->session, "moat"); /* TCP tells us if nobody gets it */
}

static int await_bytes(struct sshlink_bridge *b)
{
	ssh_session s = b->link->session;
	short out = ssh_get_poll_flags(s) & SSH_WRITE_PENDING ? POLLOUT : 0;
	struct pollfd fds[] = {
		{.fd = ssh_get_fd(s),
			.events = (short)((b->to_line.len < HELD_MAX ? POLLIN : 0) | out)},
		{.fd = b->fd,
			.events = (short)((b->to_ssh.len ? 0 : POLLIN) |
					  (b->to_line.len ? POLLOUT : 0))},
	};
	struct op tick = op_within(&b->op, TICK);
	struct err e;

	/* A write may have made libssh read: what is in its buffer wakes nobody. */
	if (b->to_line.len < HELD_MAX && ssh_channel_poll(b->link->channel, 0) > 0)
		return op_check(&b->op, &e);
	if (op_wait_fds(&tick, fds, ARRAY_LEN(fds), &e) < 0 && e.kind != ERR_TIMEOUT)
		return -1;
	return 0;
}

static void *bridge_main(void *arg)
{
	struct sshlink_bridge *b = arg;

	pthread_setname_np(pthread_self(), "moat-ssh");
	while (from_guest(b) == 0 && to_line(b) == 0 && retry_write(b) == 0 && from_line(b) == 0) {
		keep_alive(b);
		if (await_bytes(b) < 0)
			break;
	}
	to_line(b);
	shutdown(b->fd, SHUT_RDWR); /* the line learns of it */
	return NULL;
}

static void release(struct sshlink_bridge *b)
{
	if (b->fd >= 0)
		close(b->fd);
	sshlink_close(b->link);
	op_done(&b->op);
	buf_free(&b->to_line);
	buf_free(&b->to_ssh);
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

int sshlink_bridge(struct sshlink **l, struct sshlink_bridge **ret, int *ret_fd, struct err *e)
{
	struct sshlink_bridge *b = calloc(1, sizeof(*b));
	int pair[2];

	if (!b)
		return err_oom(e);
	b->fd = -1;
	b->op.cancel_fd = -1;
	b->last_sign = now_ns();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
		err_sys(e, errno, "socketpair");
		release(b);
		return -1;
	}
	b->fd = pair[0];
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
