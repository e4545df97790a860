#include "net/dns/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PREFIX = 2 };

/* The number of bytes up to the end of the message; before the length was read, up to the end of
 * the length. */
static size_t whole(const struct dns_stream *s)
{
	const uint8_t *p = buf_data(&s->in);

	return s->in.len < PREFIX ? PREFIX : PREFIX + ((size_t)p[0] << 8 | p[1]);
}

enum dns_stream_state dns_stream_read(struct dns_stream *s, size_t max)
{
	while (s->in.len < PREFIX || s->in.len < whole(s)) {
		size_t missing = whole(s) - s->in.len;
		uint8_t *room;
		ssize_t n;

		if (whole(s) > PREFIX + max)
			return DNS_STREAM_BROKEN;
		room = buf_room(&s->in, missing);
		if (!room)
			return DNS_STREAM_BROKEN;
		n = recv(s->fd, room, missing, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return DNS_STREAM_WAIT;
		if (n <= 0)
			return DNS_STREAM_BROKEN;
		buf_grew(&s->in, (size_t)n);
	}
	return DNS_STREAM_DONE;
}

struct bytes dns_stream_message(const struct dns_stream *s)
{
	return (struct bytes){buf_data(&s->in) + PREFIX, s->in.len - PREFIX};
}

void dns_stream_next(struct dns_stream *s)
{
	buf_drop(&s->in, s->in.len);
}

int dns_stream_put(struct dns_stream *s, struct bytes message, struct err *e)
{
	uint8_t prefix[PREFIX] = {(uint8_t)(message.len >> 8), (uint8_t)message.len};

	if (message.len > DNS_MESSAGE_MAX)
		return err_set(e, ERR_LIMIT, "a DNS message of %zu bytes", message.len);
	return buf_add(&s->out, prefix, sizeof(prefix), e) < 0
		       ? -1
		       : buf_add(&s->out, message.p, message.len, e);
}

enum dns_stream_state dns_stream_write(struct dns_stream *s)
{
	while (s->out.len) {
		ssize_t n = send(s->fd, buf_data(&s->out), s->out.len, MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return DNS_STREAM_WAIT;
		if (n < 0)
			return DNS_STREAM_BROKEN;
		buf_drop(&s->out, (size_t)n);
	}
	return DNS_STREAM_DONE;
}

void dns_stream_close(struct dns_stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	buf_free(&s->in);
	buf_free(&s->out);
}
