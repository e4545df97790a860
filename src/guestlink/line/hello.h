/*
 * hello.h - the greeting that opens a runner's line. Bytes of an earlier conversation may still be
 * in the stream in front of the answer. For the thread that opens the line.
 */
#pragma once

#include "guestlink/line/send.h"

/* The size of a HELLO_REPLY frame: of bytes without one in them, all but the last
 * HELLO_REPLY_SIZE - 1 can be thrown away. */
enum { HELLO_REPLY_SIZE = FRAME_HEADER + 1 + 4 + 4 + WIRE_NONCE + 4 };

/* The offset just behind the reply that carries the nonce; 0: no such reply is there as a whole.
 * Pure. */
size_t hello_find(
	const uint8_t *p, size_t len, const uint8_t nonce[WIRE_NONCE], struct wire_msg *ret);

/*
 * Sends HELLO and waits for the answer. Bytes in front of the answer are thrown away, up to a
 * limit; bytes behind it are left in `in`. ERR_UNSUPPORTED: the runner is of another version.
 */
int hello_exchange(const struct op *op, struct outbox *out, struct buf *in, struct err *e);
