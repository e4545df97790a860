/*
 * dns-stream.h - DNS messages on a TCP connection that never blocks: two bytes of length, then the
 * message. One message at a time in each direction: what comes after it stays in the kernel, and
 * the other side waits. Not thread-safe.
 */
#pragma once

#include "net/dns-msg.h"

struct dns_stream {
	int fd; /* -1: none */
	struct buf in, out;
};

enum dns_stream_state { DNS_STREAM_WAIT, DNS_STREAM_DONE, DNS_STREAM_BROKEN };

/* Reads on; done when a message of at most max bytes is whole. */
enum dns_stream_state dns_stream_read(struct dns_stream *s, size_t max);
/* The message that was read; until the next call of dns_stream_read after dns_stream_next. */
struct bytes dns_stream_message(const struct dns_stream *s);
/* Forgets it, so that the next one can be read. */
void dns_stream_next(struct dns_stream *s);
/* Takes a message to be sent; the last one must be gone. */
int dns_stream_put(struct dns_stream *s, struct bytes message, struct err *e);
enum dns_stream_state dns_stream_write(struct dns_stream *s);
/* Fine when there is none. */
void dns_stream_close(struct dns_stream *s);
