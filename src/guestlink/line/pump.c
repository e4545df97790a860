#include "guestlink/line/pump.h"

#include <errno.h>
#include <sys/socket.h>

#include "guestlink/line/channel.h"
#include "guestlink/line/send.h"
#include "util/auto.h"
#include "util/thread/thread.h"

enum {
	CHUNK_MIN = 4 * 1024, /* reads grow under load; an idle line needs little memory */
	CHUNK_MAX = 128 * 1024,
	LOOKS = 3, /* for silence, within the line's patience */
};

void line_end(struct line *l, const struct err *why)
{
	{
		auto_unlock struct lock *held = lock_take(&l->mu);

		if (l->failed)
			return;
		l->failed = true;
		l->why = *why;
		channels_ring_locked(l);
	}
	/* Ends the pump and wakes senders that wait for room. The socket itself stays as it is: its
	 * owner may greet a new runner on it. */
	outbox_close(&l->out);
	op_cancel(&l->pump_op);
}

int line_why(struct line *l, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&l->mu);

	*e = l->why;
	return -1;
}

int line_blame(struct err *e, const char *what)
{
	return err_set(e, ERR_UNAVAILABLE, "the guest runner broke the protocol: %s", what);
}

int line_send(const struct op *op, struct line *l, const struct wire_msg *msg, struct bytes body,
	struct err *e)
{
	if (wire_send(op, &l->out, msg, body, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT || e->kind == ERR_CANCELLED)
		return -1;
	/* Half a frame may be out. If the line had ended before, the first reason counts. */
	line_end(l, e);
	return line_why(l, e);
}

/* ---- receiving: all of this runs on the pump ---- */

int pump_route(struct line *l, struct err *e)
{
	for (;;) {
		struct frame frame;
		long n = frame_decode(buf_data(&l->in), l->in.len, &wire_to_host, &frame);

		if (n < 0)
			return line_blame(e, "a message over the limits");
		if (n == 0)
			break;
		if (channel_route(l, &frame, e) < 0)
			return -1;
		buf_drop(&l->in, (size_t)n);
	}
	if (l->in.len == 0 && l->chunk == CHUNK_MIN && l->in.cap > 4 * CHUNK_MIN)
		buf_free(&l->in);
	return 0;
}

static void look_later(struct line *l)
{
	l->look_ns =
		l->patience > 0 ? now_ns() + (int64_t)(l->patience / LOOKS * 1e9) : OP_NO_DEADLINE;
}

/* Nobody waits for the guest, or it cannot speak. */
static bool may_be_silent(struct line *l)
{
	auto_unlock struct lock *held = lock_take(&l->mu);

	return l->still_ns || l->channels == 0;
}

/*
 * Nothing has come since the last look. A guest can fall silent without a sign: its QEMU may be
 * frozen. Silence counts only when the pump has looked for bytes itself, so that an overloaded host
 * is not taken for a silent guest.
 */
static int bear_silence(struct line *l, struct err *e)
{
	look_later(l);
	if (may_be_silent(l)) {
		l->silent = 0;
		return 0;
	}
	if (l->silent++ == LOOKS)
		return err_set(e, ERR_UNAVAILABLE, "the guest has said nothing for %g seconds",
			l->patience);
	line_ask_for_sign(&l->base);
	return 0;
}

/* Waits for the guest or the outbox. 1: there is something to do; 0: there was silence. */
static int pump_wait(struct line *l, struct pollfd *fds, unsigned n, struct err *e)
{
	struct op look = l->pump_op;

	look.deadline_ns = l->look_ns;
	if (op_wait_fds(&look, fds, n, e) == 0)
		return 1;
	return e->kind == ERR_TIMEOUT ? bear_silence(l, e) : -1;
}

static int pump_read(struct line *l, struct err *e)
{
	uint8_t *room = buf_room(&l->in, l->chunk);
	ssize_t got;

	if (!room)
		return err_oom(e);
	got = recv(l->fd, room, l->chunk, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got < 0 && errno != ECONNRESET)
		return err_sys(e, errno, "read from the guest");
	if (got <= 0)
		return err_set(e, ERR_UNAVAILABLE, "the connection to the guest was closed");
	buf_grew(&l->in, (size_t)got);
	l->heard_ns = now_ns();
	look_later(l);
	l->silent = 0;
	if ((size_t)got == l->chunk && l->chunk < CHUNK_MAX)
		l->chunk *= 2;
	else if ((size_t)got < l->chunk / 4 && l->chunk > CHUNK_MIN)
		l->chunk /= 2;
	return pump_route(l, e);
}

static int pump_loop(struct line *l, struct err *e)
{
	int left = 0;

	if (pump_route(l, e) < 0) /* what came with the greeting */
		return -1;
	for (;;) {
		struct pollfd fds[] = {
			{.fd = l->fd, .events = (short)(left ? POLLIN | POLLOUT : POLLIN)},
			{.fd = l->out.wake, .events = POLLIN},
		};

		int ready = pump_wait(l, fds, ARRAY_LEN(fds), e);

		if (ready < 0)
			return -1;
		if (!ready)
			continue;
		if (fds[1].revents || (fds[0].revents & POLLOUT))
			left = outbox_flush(&l->out, e);
		if (left < 0 || ((fds[0].revents & ~POLLOUT) && pump_read(l, e) < 0))
			return -1;
	}
}

static void *pump_main(void *arg)
{
	struct line *l = arg;
	struct err e;

	pump_loop(l, &e);
	line_end(l, &e);
	return NULL;
}

int pump_start(struct line *l, struct err *e)
{
	l->chunk = CHUNK_MIN;
	look_later(l);
	return thread_start(&l->pump, "pump", pump_main, l, e);
}
