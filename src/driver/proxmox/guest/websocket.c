#include "driver/proxmox/guest/websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/str.h"

enum {
	FIN = 0x80,
	RESERVED = 0x70,
	MASKED = 0x80,
	LEN_16 = 126,
	LEN_64 = 127,
	STATUS_SWITCH = 101
};

static size_t put_head(uint8_t *out, enum ws_opcode opcode, size_t len, uint32_t key)
{
	size_t n = 0;

	out[n++] = (uint8_t)(FIN | opcode);
	if (len < LEN_16) {
		out[n++] = (uint8_t)(MASKED | len);
	} else if (len <= UINT16_MAX) {
		out[n++] = MASKED | LEN_16;
		out[n++] = (uint8_t)(len >> 8);
		out[n++] = (uint8_t)len;
	} else {
		out[n++] = MASKED | LEN_64;
		for (int shift = 56; shift >= 0; shift -= 8)
			out[n++] = (uint8_t)((uint64_t)len >> shift);
	}
	put_le32(out + n, key);
	return n + 4;
}

static void mask(uint8_t *p, size_t len, uint32_t key, size_t from)
{
	for (size_t i = 0; i < len; i++)
		p[i] ^= (uint8_t)(key >> 8 * ((from + i) % 4));
}

/* A frame of two pieces. */
static int put(struct buf *b, enum ws_opcode opcode, struct bytes first, struct bytes second,
	uint32_t key, struct err *e)
{
	size_t len = first.len + second.len;
	uint8_t *out = buf_room(b, WS_HEAD_MAX + len);
	size_t n;

	if (!out)
		return err_oom(e);
	n = put_head(out, opcode, len, key);
	if (first.len)
		memcpy(out + n, first.p, first.len);
	if (second.len)
		memcpy(out + n + first.len, second.p, second.len);
	mask(out + n, len, key, 0);
	buf_grew(b, n + len);
	return 0;
}

int ws_put(struct buf *b, enum ws_opcode opcode, struct bytes payload, uint32_t key, struct err *e)
{
	return put(b, opcode, payload, (struct bytes){0}, key, e);
}

int ws_put_term(struct buf *b, struct bytes input, uint32_t key, struct err *e)
{
	char head[32];
	int n = snprintf(head, sizeof(head), "0:%zu:", input.len);

	return put(b, WS_BINARY, (struct bytes){(uint8_t *)head, (size_t)n}, input, key, e);
}

long ws_get(struct bytes in, struct ws_frame *ret)
{
	size_t at = 2;
	uint64_t len;

	if (in.len < 2)
		return 0;
	if ((in.p[0] & RESERVED) || (in.p[1] & MASKED)) /* only clients mask */
		return -1;
	len = in.p[1];
	if (len >= LEN_16) {
		size_t wide = len == LEN_16 ? 2 : 8;

		if (in.len < at + wide)
			return 0;
		for (len = 0; wide; wide--)
			len = len << 8 | in.p[at++];
	}
	if (len > WS_PAYLOAD_MAX)
		return -1;
	if (in.len - at < len)
		return 0;
	ret->opcode = (enum ws_opcode)(in.p[0] & 0x0f);
	ret->payload = (struct bytes){in.p + at, (size_t)len};
	return (long)(at + len);
}

long ws_answer(struct bytes in, struct err *e)
{
	const char *end = in.len ? memmem(in.p, in.len, "\r\n\r\n", 4) : NULL;
	char line[160];
	size_t n = 0;

	if (!end && in.len > WS_ANSWER_MAX)
		return err_set(e, ERR_BACKEND, "the server's answer to a websocket is too long");
	if (!end)
		return 0;
	while (in.p[n] != '\r')
		n++;
	str_escape((const char *)in.p, n, line, sizeof(line));
	if (!str_starts(line, "HTTP/1.") || strlen(line) < 12 || atoi(line + 9) != STATUS_SWITCH)
		return err_set(e, ERR_BACKEND, "the server opened no websocket: %s", line);
	return (const uint8_t *)end + 4 - in.p;
}
