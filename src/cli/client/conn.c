#include "cli/client/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/frame.h"
#include "proto/proto.h"
#include "util/auto.h"
#include "util/json.h"

static const struct frame_limits limits = {
	.head_min = 2, .head_max = PROTO_JSON_MAX, .body_max = PROTO_BLOB_MAX};

void conn_close(struct conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	buf_free(&c->in);
	buf_free(&c->out);
}

int conn_put(struct conn *c, json_t *j, struct bytes blob, struct err *e)
{
	auto_json json_t *owned = j;
	auto_free char *text = NULL;
	uint8_t header[FRAME_HEADER];
	size_t len;

	if (!owned)
		return err_oom(e);
	if (json_to_str(owned, &text, e) < 0)
		return -1;
	len = strlen(text);
	if (len > PROTO_JSON_MAX || blob.len > PROTO_BLOB_MAX)
		return err_set(e, ERR_LIMIT, "the request is too large: %zu bytes", len);
	if (c->hung_up)
		return 0;
	frame_encode_header(header, (uint32_t)len, (uint32_t)blob.len);
	if (buf_add(&c->out, header, sizeof(header), e) < 0 || buf_add(&c->out, text, len, e) < 0 ||
		buf_add(&c->out, blob.p, blob.len, e) < 0)
		return -1;
	return 0;
}

int conn_flush(struct conn *c, struct err *e)
{
	while (c->out.len) {
		ssize_t n = send(c->fd, buf_data(&c->out), c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			c->hung_up = true; /* the daemon's reason may still be in the socket */
			buf_drop(&c->out, c->out.len);
			return 0;
		}
		if (n < 0)
			return err_sys(e, errno, "the daemon's socket");
		buf_drop(&c->out, (size_t)n);
	}
	return 0;
}

int conn_fill(struct conn *c, struct err *e)
{
	uint8_t *room = buf_room(&c->in, PROTO_PIECE);
	ssize_t n;

	if (!room)
		return err_oom(e);
	n = recv(c->fd, room, PROTO_PIECE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return err_set(e, ERR_UNAVAILABLE, "the daemon closed the connection");
	buf_grew(&c->in, (size_t)n);
	return 0;
}

int conn_next(struct conn *c, json_t **ret_head, struct bytes *ret_blob, struct err *e)
{
	struct frame f;
	long whole;

	buf_drop(&c->in, c->taken);
	c->taken = 0;
	if (c->in.len == 0)
		return 0;
	whole = frame_decode(buf_data(&c->in), c->in.len, &limits, &f);
	if (whole < 0)
		return err_set(e, ERR_UNAVAILABLE, "the daemon does not speak moat's protocol");
	if (whole == 0)
		return 0;
	if (json_parse_object((struct bytes){f.head, f.head_len}, ret_head, e) < 0) {
		e->kind = ERR_UNAVAILABLE; /* the daemon's JSON is wrong, not the user's */
		return err_wrap(e, "the daemon's answer");
	}
	*ret_blob = (struct bytes){f.body, f.body_len};
	c->taken = (size_t)whole;
	return 1;
}

void conn_forget_input(struct conn *c)
{
	buf_drop(&c->in, c->in.len);
	c->taken = 0;
}
