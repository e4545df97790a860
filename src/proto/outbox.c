#include "proto/outbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "wire/frame.h"
#include "util/auto.h"
#include "util/thread/lock.h"

enum { WAITING_MAX = 256 * 1024 }; /* bytes: when more are queued, senders wait */

int outbox_init(struct outbox *o, int fd, int quit, const char *peer, struct err *e)
{
	int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (wake < 0)
		return err_sys(e, errno, "eventfd");
	*o = (struct outbox){.fd = fd, .quit = quit, .wake = wake, .peer = peer};
	lock_init(&o->mu, "outbox.mu", LOCK_LEAF);
	return 0;
}

void outbox_done(struct outbox *o)
{
	if (!o->wake)
		return;
	close(o->wake);
	buf_free(&o->waiting);
	lock_done(&o->mu);
}

/* Returns the number of bytes that the socket took, 0 if it is full. */
static ssize_t socket_send(struct outbox *o, struct iovec *iov, size_t n, struct err *e)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t sent = sendmsg(o->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0)
		return sent;
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
		return 0;
	if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
		return err_set(e, ERR_UNAVAILABLE, "%s closed the connection", o->peer);
	return err_sys(e, errno, "send to %s", o->peer);
}

static int fail_ending(const struct outbox *o, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "the connection to %s is ending", o->peer);
}

static void drop_sent_locked(struct outbox *o, size_t sent)
{
	const uint8_t *p = buf_data(&o->waiting);
	size_t end = o->begun; /* of the frame in which the last byte sent is */

	while (end < sent)
		end += FRAME_HEADER + get_le32(p + end) + get_le32(p + end + 4);
	o->begun = end - sent;
	buf_drop(&o->waiting, sent);
}

static int flush_locked(struct outbox *o, struct err *e)
{
	if (o->closed)
		return fail_ending(o, e);
	while (o->waiting.len) {
		struct iovec iov = {buf_data(&o->waiting), o->waiting.len};
		ssize_t sent = socket_send(o, &iov, 1, e);

		if (sent <= 0)
			return (int)sent;
		drop_sent_locked(o, (size_t)sent);
	}
	return 0;
}

/* Queues what the pieces hold after the first `done` bytes. */
static int keep_rest_locked(
	struct outbox *o, const struct iovec *iov, size_t n, size_t done, struct err *e)
{
	size_t whole = 0;

	for (size_t i = 0; i < n; i++)
		whole += iov[i].iov_len;
	if (!buf_room(&o->waiting, whole - done)) /* queue all of it or nothing */
		return err_oom(e);
	for (size_t i = 0; i < n; i++) {
		size_t skip = done < iov[i].iov_len ? done : iov[i].iov_len;

		done -= skip;
		buf_add(&o->waiting, (uint8_t *)iov[i].iov_base + skip, iov[i].iov_len - skip, e);
	}
	return 0;
}

/* Returns 1 if the frame was sent or queued, 0 if there is no room. */
static int try_send(struct outbox *o, struct iovec *iov, size_t n, size_t whole, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&o->mu);
	uint64_t one = 1;
	ssize_t done = 0;
	bool was_empty;

	if (flush_locked(o, e) < 0)
		return -1;
	if (o->waiting.len > WAITING_MAX)
		return 0;
	was_empty = o->waiting.len == 0;
	if (was_empty) {
		done = socket_send(o, iov, n, e);
		if (done < 0)
			return -1;
		if ((size_t)done == whole)
			return 1;
	}
	if (keep_rest_locked(o, iov, n, (size_t)done, e) < 0)
		return -1;
	if (was_empty)
		o->begun = done ? whole - (size_t)done : 0;
	/* If bytes were queued before, the thread that queued them has written to wake. */
	if (was_empty && write(o->wake, &one, sizeof(one)) < 0)
		return err_sys(e, errno, "eventfd");
	return 1;
}

int outbox_send(
	const struct op *op, struct outbox *o, struct bytes head, struct bytes body, struct err *e)
{
	uint8_t header[FRAME_HEADER];
	struct iovec iov[] = {
		{header, sizeof(header)}, {(void *)head.p, head.len}, {(void *)body.p, body.len}};
	size_t whole = sizeof(header) + head.len + body.len;

	frame_encode_header(header, (uint32_t)head.len, (uint32_t)body.len);
	for (;;) {
		int queued = try_send(o, iov, body.len ? 3 : 2, whole, e);

		if (queued)
			return queued > 0 ? 0 : -1;
		struct pollfd fds[] = {
			{.fd = o->fd, .events = POLLOUT}, {.fd = o->quit, .events = POLLIN}};

		if (op_wait_fds(op, fds, 2, e) < 0)
			return -1;
		if (fds[1].revents)
			return fail_ending(o, e);
	}
}

void outbox_close(struct outbox *o)
{
	auto_unlock struct lock *held = lock_take(&o->mu);

	o->closed = true;
}

struct bytes outbox_rest(const struct outbox *o)
{
	return (struct bytes){buf_data(&o->waiting), o->begun};
}

int outbox_flush(struct outbox *o, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&o->mu);
	uint64_t count;

	if (read(o->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return err_sys(e, errno, "eventfd");
	if (flush_locked(o, e) < 0)
		return -1;
	return o->waiting.len > 0;
}
