/* send.h - sends one message to the runner through the outbox of its line. Inline; any thread. */
#pragma once

#include "wire/wire.h"
#include "proto/outbox.h"

/* Sends one message. Fails as outbox_send does. */
static inline int wire_send(const struct op *op, struct outbox *out, const struct wire_msg *msg,
	struct bytes body, struct err *e)
{
	uint8_t head[WIRE_HEAD_MAX];

	return outbox_send(op, out, (struct bytes){head, wire_encode(msg, head)}, body, e);
}
