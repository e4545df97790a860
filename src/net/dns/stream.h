/*
 * stream.h - DNS messages on a non-blocking TCP connection: two bytes of length, then the message.
 * One message at a time in each direction: what follows stays in the kernel, and the other side
 * waits. Not thread-safe.
 */
#pragma once

#include "net/dns/msg.h"

struct dns_stream {
	int fd; /* -1: none */
	struct buf in, out;
};

enum dns_stream_state { DNS_STREAM_WAIT, DNS_STREAM_DONE, DNS_STREAM_BROKEN };

/* Continues reading; done when a message of at most max bytes is complete. */
enum dns_stream_state dns_stream_read(struct dns_stream *s, size_t max);
/* The message that was read; valid until dns_stream_next. */
struct bytes dns_stream_message(const struct dns_stream *s);
/* Drops the message, so that the next one can be read. */
void dns_stream_next(struct dns_stream *s);
/* Queues a message; the previous one must have been sent. */
int dns_stream_put(struct dns_stream *s, struct bytes message, struct err *e);
enum dns_stream_state dns_stream_write(struct dns_stream *s);
/* Does nothing if there is no connection. */
void dns_stream_close(struct dns_stream *s);
