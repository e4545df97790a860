#include "guestlink/line/hello.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "util/system/io.h"

enum {
	NONCE_AT = HELLO_REPLY_SIZE - 4 - WIRE_NONCE,
	GARBAGE_MAX = 4 * 1024 * 1024,
	READ_SIZE = 64 * 1024,
};

size_t hello_find(
	const uint8_t *p, size_t len, const uint8_t nonce[WIRE_NONCE], struct wire_msg *ret)
{
	/* The first frame may have lost its head, so frames cannot be followed from the start. We
	 * look for the nonce instead, which nobody could know before. */
	for (size_t at = 0; at + HELLO_REPLY_SIZE <= len; at++) {
		const uint8_t *found =
			memmem(p + at + NONCE_AT, len - at - NONCE_AT, nonce, WIRE_NONCE);
		struct frame frame;

		if (!found)
			return 0;
		at = (size_t)(found - p) - NONCE_AT;
		if (frame_decode(p + at, len - at, &wire_to_host, &frame) == HELLO_REPLY_SIZE &&
			frame.body_len == 0 && wire_decode(frame.head, frame.head_len, ret) &&
			ret->type == WIRE_HELLO_REPLY)
			return at + HELLO_REPLY_SIZE;
	}
	return 0;
}

static int send_hello(
	const struct op *op, struct outbox *out, struct wire_msg *hello, struct err *e)
{
	ssize_t got = getrandom(hello->nonce, WIRE_NONCE, 0);

	if (got != WIRE_NONCE)
		return err_sys(e, got < 0 ? errno : EIO, "getrandom");
	return wire_send(op, out, hello, (struct bytes){0}, e);
}

static int await_reply(
	const struct op *op, int fd, const uint8_t nonce[WIRE_NONCE], struct buf *in, struct err *e)
{
	size_t skipped = 0;

	for (;;) {
		struct wire_msg reply;
		size_t end = hello_find(buf_data(in), in->len, nonce, &reply);
		ssize_t got;

		if (end && reply.version != WIRE_VERSION)
			return err_set(e, ERR_UNSUPPORTED,
				"the runner in the guest speaks version %u of the wire, not %d",
				reply.version, WIRE_VERSION);
		buf_drop(in, end);
		if (end)
			return 0;
		if (in->len >= HELLO_REPLY_SIZE) {
			size_t junk = in->len - (HELLO_REPLY_SIZE - 1);

			skipped += junk;
			buf_drop(in, junk);
		}
		if (skipped > GARBAGE_MAX)
			return err_set(e, ERR_UNAVAILABLE,
				"the guest answered the greeting with %zu bytes of garbage",
				skipped);
		got = io_fill(op, in, fd, READ_SIZE, e);
		if (got < 0)
			return err_wrap(e, "waiting for the runner in the guest");
		if (got == 0)
			return err_set(
				e, ERR_UNAVAILABLE, "the connection to the guest was closed");
	}
}

int hello_exchange(const struct op *op, struct outbox *out, struct buf *in, struct err *e)
{
	struct wire_msg hello = {.type = WIRE_HELLO, .version = WIRE_VERSION};

	if (send_hello(op, out, &hello, e) < 0)
		return -1;
	for (;;) { /* the socket may still be full of an earlier conversation's bytes */
		int left = outbox_flush(out, e);

		if (left < 0)
			return -1;
		if (left == 0)
			break;
		if (op_wait_fd(op, out->fd, POLLOUT, e) < 0)
			return err_wrap(e, "waiting for the runner in the guest");
	}
	return await_reply(op, out->fd, hello.nonce, in, e);
}
