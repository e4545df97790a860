/* dispatch.c - hands each message to the function that deals with it. */

#include <string.h>
#include <unistd.h>

#include "moat-guest/command/exec.h"
#include "moat-guest/files/files.h"
#include "moat-guest/identity/identity.h"

/* A new conversation begins: all that the last one has started ends. */
static bool hello(struct runner *r, const struct wire_msg *m)
{
	struct wire_msg reply = {
		.type = WIRE_HELLO_REPLY, .version = WIRE_VERSION, .code = (uint32_t)getpid()};

	channels_abandon(r);
	memcpy(reply.nonce, m->nonce, sizeof(reply.nonce));
	return uplink_send(&r->uplink, &reply, NULL, 0);
}

static bool data(struct channel *ch, const struct frame *f)
{
	if (f->body_len > WIRE_PIECE || ch->held + f->body_len > WIRE_WINDOW)
		return false;
	ch->held += f->body_len;
	if (ch->ops->data)
		ch->ops->data(ch, f->body, f->body_len);
	else
		channel_consume(ch, f->body_len, true);
	return true;
}

static bool credit(struct channel *ch, const struct wire_msg *m)
{
	bool waiting = ch->credit == 0;

	if (m->count > WIRE_WINDOW - ch->credit)
		return false;
	ch->credit += m->count;
	if (waiting && ch->credit && ch->ops->credited)
		ch->ops->credited(ch);
	return true;
}

/* Hands a message to its channel. */
static bool to_channel(struct channel *ch, const struct wire_msg *m, const struct frame *f)
{
	switch (m->type) {
	case WIRE_DATA:
		return data(ch, f);
	case WIRE_CREDIT:
		return credit(ch, m);
	case WIRE_EOF:
		if (ch->ops->eof)
			ch->ops->eof(ch);
		return true;
	case WIRE_SIGNAL:
		if (ch->ops->signal)
			ch->ops->signal(ch, m->code);
		return true;
	case WIRE_RESIZE:
		if (ch->ops->resize)
			ch->ops->resize(ch, m->rows, m->cols);
		return true;
	case WIRE_CANCEL:
		ch->ops->cancel(ch);
		return true;
	default:
		return false;
	}
}

static bool pong(struct runner *r, uint32_t id)
{
	struct wire_msg m = {.type = WIRE_PONG, .id = id};

	return uplink_send(&r->uplink, &m, NULL, 0);
}

bool runner_handle(struct runner *r, const struct wire_msg *m, const struct frame *f)
{
	struct channel *ch = channel_find(r, m->id);

	switch (m->type) {
	case WIRE_HELLO:
		return hello(r, m);
	case WIRE_PING:
		return pong(r, m->id);
	case WIRE_EXEC:
		return !ch && exec_start(r, m, f);
	case WIRE_READ:
	case WIRE_WRITE:
	case WIRE_LIST:
	case WIRE_MKDIR:
	case WIRE_SYMLINK:
		return !ch && file_handle(r, m, f);
	case WIRE_IDENTITY:
		return !ch && identity_handle(r, m, f);
	case WIRE_DATA:
	case WIRE_EOF:
	case WIRE_CREDIT:
	case WIRE_SIGNAL:
	case WIRE_RESIZE:
	case WIRE_CANCEL:
		/* A channel that has just ended: the message and the answer have crossed. */
		return !ch || to_channel(ch, m, f);
	default: /* only a guest says these */
		return false;
	}
}
