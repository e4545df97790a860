/*
 * inbox.h - a bounded queue of messages for one operation's thread: its client's frames, answers of
 * QEMU. Any thread puts; the owner takes, and waits for inbox_fd() through its op.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"

struct inbox;

/* Putter and taker agree on what types and numbers mean. */
struct message {
	int type;
	uint64_t a, b;
	struct buf data; /* the taker owns it: buf_free */
};

/* max_bytes: how much data may wait in it. */
int inbox_new(size_t max_bytes, struct inbox **ret, struct err *e);
void inbox_free(struct inbox *in); /* NULL is fine */
static inline void auto_inboxp(struct inbox **in)
{
	inbox_free(*in);
}
#define auto_inbox __attribute__((cleanup(auto_inboxp)))

/* Copies the bytes. ERR_LIMIT when full: the sender broke its flow control. Once the inbox is
 * closed, fails with the closer's reason. */
int inbox_put(struct inbox *in, int type, uint64_t a, uint64_t b, struct bytes data, struct err *e);
/* No more will come: after the last message, inbox_take fails with this reason. */
void inbox_close(struct inbox *in, const struct err *why);

/* Readable while there is a message or the inbox is closed. */
int inbox_fd(const struct inbox *in);
/* 1 and a message, 0 if there is none now, -1 (with the closer's reason) if there will be none. */
int inbox_take(struct inbox *in, struct message *ret, struct err *e);
