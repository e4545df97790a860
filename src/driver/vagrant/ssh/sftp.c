#include "driver/vagrant/ssh/sftp.h"

#include <string.h>

enum {
	SSH_FXP_INIT = 1,
	SSH_FXP_OPEN = 3,
	SSH_FXP_CLOSE = 4,
	SSH_FXP_WRITE = 6,
	OPEN_WRITE = 2,
	OPEN_CREATE = 8,
	OPEN_TRUNCATE = 16,
	ATTR_PERMISSIONS = 4,
};

static int put32(struct buf *b, uint32_t v, struct err *e)
{
	const uint8_t bytes[] = {
		(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};

	return buf_add(b, bytes, sizeof(bytes), e);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int put_string(struct buf *b, struct bytes s, struct err *e)
{
	return put32(b, (uint32_t)s.len, e) < 0 || buf_add(b, s.p, s.len, e) < 0 ? -1 : 0;
}

/* Every packet: the length of what follows, its type, the request's id. */
static int put_head(struct buf *b, size_t rest, uint8_t type, uint32_t id, struct err *e)
{
	return put32(b, (uint32_t)rest + 5, e) < 0 || buf_add(b, &type, 1, e) < 0 ||
			       put32(b, id, e) < 0
		       ? -1
		       : 0;
}

int sftp_put_init(struct buf *b, struct err *e)
{
	return put_head(b, 0, SSH_FXP_INIT, SFTP_VERSION, e);
}

int sftp_put_open(struct buf *b, uint32_t id, const char *path, uint32_t mode, struct err *e)
{
	struct bytes name = {(const uint8_t *)path, strlen(path)};

	return put_head(b, 4 + name.len + 12, SSH_FXP_OPEN, id, e) < 0 ||
			       put_string(b, name, e) < 0 ||
			       put32(b, OPEN_WRITE | OPEN_CREATE | OPEN_TRUNCATE, e) < 0 ||
			       put32(b, ATTR_PERMISSIONS, e) < 0 || put32(b, mode, e) < 0
		       ? -1
		       : 0;
}

int sftp_put_write(struct buf *b, uint32_t id, struct bytes handle, uint64_t offset,
	struct bytes data, struct err *e)
{
	return put_head(b, 4 + handle.len + 8 + 4 + data.len, SSH_FXP_WRITE, id, e) < 0 ||
			       put_string(b, handle, e) < 0 ||
			       put32(b, (uint32_t)(offset >> 32), e) < 0 ||
			       put32(b, (uint32_t)offset, e) < 0 || put_string(b, data, e) < 0
		       ? -1
		       : 0;
}

int sftp_put_close(struct buf *b, uint32_t id, struct bytes handle, struct err *e)
{
	return put_head(b, 4 + handle.len, SSH_FXP_CLOSE, id, e) < 0 || put_string(b, handle, e) < 0
		       ? -1
		       : 0;
}

/* The string at p, or false if it is longer than what is left. */
static bool get_string(const uint8_t *p, size_t left, struct bytes *ret)
{
	if (left < 4 || get32(p) > left - 4)
		return false;
	*ret = (struct bytes){p + 4, get32(p)};
	return true;
}

long sftp_reply_parse(struct bytes in, struct sftp_reply *ret)
{
	const uint8_t *body = in.p + 9;
	size_t len, rest;

	if (in.len < 4)
		return 0;
	len = get32(in.p);
	if (len < 5 || len > SFTP_REPLY_MAX)
		return -1;
	if (in.len - 4 < len)
		return 0;
	rest = len - 5;
	*ret = (struct sftp_reply){.type = (enum sftp_type)in.p[4], .id = get32(in.p + 5)};
	switch (in.p[4]) {
	case SFTP_IS_VERSION:
		break;
	case SFTP_IS_STATUS:
		if (rest < 4)
			return -1;
		ret->code = get32(body);
		if (!get_string(body + 4, rest - 4, &ret->text)) /* old servers send none */
			ret->text = (struct bytes){body, 0};
		break;
	case SFTP_IS_HANDLE:
		if (!get_string(body, rest, &ret->text) || ret->text.len > SFTP_HANDLE_MAX)
			return -1;
		break;
	default:
		return -1;
	}
	return (long)len + 4;
}
