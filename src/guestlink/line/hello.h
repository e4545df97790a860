/* hello.h - the greeting that opens a runner's line, in a stream that may begin with anything. */
#pragma once

#include "guest/send.h"

/* A HELLO_REPLY frame on the wire; searching may forget all but the last HELLO_REPLY_SIZE - 1. */
enum { HELLO_REPLY_SIZE = FRAME_HEADER + 1 + 4 + 4 + WIRE_NONCE + 4 };

/* Pure. The offset just behind the reply that carries the nonce, or 0 if it is not (wholly) there.
 */
size_t hello_find(
	const uint8_t *p, size_t len, const uint8_t nonce[WIRE_NONCE], struct wire_msg *ret);

/*
 * Sends HELLO and waits for the answer to it. What comes before the answer is thrown away, up to a
 * limit; what has been read beyond it is left in `in`. ERR_UNSUPPORTED: a runner of another
 * version.
 */
int hello_exchange(const struct op *op, struct outbox *out, struct buf *in, struct err *e);
