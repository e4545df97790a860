#include "guest/outbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "util/auto.h"
#include "util/lock.h"

enum { WAITING_MAX = 256 * 1024 }; /* when more waits, senders wait too */

int outbox_init(struct outbox *o, int fd, int quit, struct err *e)
{
	int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (wake < 0)
		return err_sys(e, errno, "eventfd");
	*o = (struct outbox){.fd = fd, .quit = quit, .wake = wake};
	pthread_mutex_init(&o->mu, NULL);
	return 0;
}

void outbox_done(struct outbox *o)
{
	if (!o->wake)
		return;
	close(o->wake);
	buf_free(&o->waiting);
	pthread_mutex_destroy(&o->mu);
}

/* The number of bytes that the socket took, 0 if it is full. */
static ssize_t socket_send(int fd, struct iovec *iov, size_t n, struct err *e)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t sent = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0)
		return sent;
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
		return 0;
	if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
		return err_set(e, ERR_UNAVAILABLE, "the connection to the guest was closed");
	return err_sys(e, errno, "send to the guest");
}

static int flush_locked(struct outbox *o, struct err *e)
{
	while (o->waiting.len) {
		struct iovec iov = {buf_data(&o->waiting), o->waiting.len};
		ssize_t sent = socket_send(o->fd, &iov, 1, e);

		if (sent <= 0)
			return (int)sent;
		buf_drop(&o->waiting, (size_t)sent);
	}
	return 0;
}

/* Keeps what is left of head and body after the first `done` bytes. */
static int keep_rest_locked(
	struct outbox *o, struct bytes head, struct bytes body, size_t done, struct err *e)
{
	size_t of_head = done < head.len ? done : head.len, of_body = done - of_head;

	if (!buf_room(&o->waiting, head.len + body.len - done)) /* all of it or nothing */
		return err_oom(e);
	buf_add(&o->waiting, head.p + of_head, head.len - of_head, e);
	if (body.len)
		buf_add(&o->waiting, body.p + of_body, body.len - of_body, e);
	return 0;
}

/* 1: queued; 0: no room. */
static int try_send(struct outbox *o, struct bytes head, struct bytes body, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&o->mu);
	uint64_t one = 1;
	ssize_t done = 0;
	bool was_empty;

	if (flush_locked(o, e) < 0)
		return -1;
	if (o->waiting.len > WAITING_MAX)
		return 0;
	was_empty = o->waiting.len == 0;
	if (was_empty) {
		struct iovec iov[] = {{(void *)head.p, head.len}, {(void *)body.p, body.len}};

		done = socket_send(o->fd, iov, body.len ? 2 : 1, e);
		if (done < 0)
			return -1;
		if ((size_t)done == head.len + body.len)
			return 1;
	}
	if (keep_rest_locked(o, head, body, (size_t)done, e) < 0)
		return -1;
	/* If it was not empty, whoever left bytes in it has rung already. */
	if (was_empty && write(o->wake, &one, sizeof(one)) < 0)
		return err_sys(e, errno, "eventfd");
	return 1;
}

int outbox_send(const struct op *op, struct outbox *o, const struct wire_msg *msg,
	struct bytes body, struct err *e)
{
	uint8_t head[FRAME_HEADER + WIRE_HEAD_MAX];
	size_t head_len = wire_encode(msg, head + FRAME_HEADER);

	frame_encode_header(head, (uint32_t)head_len, (uint32_t)body.len);
	for (;;) {
		struct pollfd fds[] = {
			{.fd = o->fd, .events = POLLOUT}, {.fd = o->quit, .events = POLLIN}};
		int queued = try_send(o, (struct bytes){head, FRAME_HEADER + head_len}, body, e);

		if (queued)
			return queued > 0 ? 0 : -1;
		if (op_wait_fds(op, fds, ARRAY_LEN(fds), e) < 0)
			return -1;
		if (fds[1].revents)
			return err_set(e, ERR_UNAVAILABLE, "the line to the guest has failed");
	}
}

int outbox_flush(struct outbox *o, struct err *e)
{
	auto_unlock pthread_mutex_t *held = lock_take(&o->mu);
	uint64_t count;

	if (read(o->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return err_sys(e, errno, "eventfd");
	if (flush_locked(o, e) < 0)
		return -1;
	return o->waiting.len > 0;
}
