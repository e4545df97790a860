/*
 * inbox.h - a bounded queue of messages for one operation's thread. Any thread puts, the owner
 * takes and waits on inbox_fd() through its op. Both the client's frames and the guest's frames
 * reach an operation this way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"

struct inbox;

/* What a message means is between the one who puts and the one who takes. */
struct letter {
	int type;
	uint64_t a, b;
	struct buf data; /* the taker owns it: buf_free */
};

/* max_bytes: of the data of letters that wait; more is ERR_LIMIT. */
int inbox_new(size_t max_bytes, struct inbox **ret, struct err *e);
void inbox_free(struct inbox *in); /* NULL is fine */
static inline void auto_inboxp(struct inbox **in)
{
	inbox_free(*in);
}
#define auto_inbox __attribute__((cleanup(auto_inboxp)))

/* Copies the bytes. ERR_LIMIT when full: the sender broke its flow control. The closer's reason
 * once closed. */
int inbox_put(struct inbox *in, int type, uint64_t a, uint64_t b, struct bytes data, struct err *e);
/* No more will come: the taker sees inbox_closed() after the last letter, with the reason. */
void inbox_close(struct inbox *in, const struct err *why);

/* Readable while there is a letter or the inbox is closed. */
int inbox_fd(const struct inbox *in);
/* 1 and a letter, 0 if there is none now, -1 (with the closer's reason) if there will be none. */
int inbox_take(struct inbox *in, struct letter *ret, struct err *e);
