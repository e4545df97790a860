#include "web/websocket.h"

#include <string.h>

#include "wire/base64-raw.h"
#include "web/sha1.h"

void ws_accept(const char *key, char ret[WS_ACCEPT_SIZE])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t sum[SHA1_SIZE];
	char text[SHA1_TEXT_MAX];
	size_t len = strnlen(key, WS_KEY_MAX);

	memcpy(text, key, len);
	memcpy(text + len, guid, sizeof(guid) - 1);
	sha1_short(text, len + sizeof(guid) - 1, sum);
	base64_put(sum, sizeof(sum), ret);
	ret[WS_ACCEPT_SIZE - 1] = 0;
}

static uint64_t get_be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

/* Whether the first two bytes may begin a frame of a browser. */
static bool is_fine(const uint8_t *p)
{
	unsigned opcode = p[0] & 15, size = p[1] & 127;

	if ((p[0] & 0x70) || !(p[1] & 0x80))
		return false; /* an extension that nobody asked for; not masked */
	if (opcode >= WS_CLOSE)
		return opcode <= WS_PONG && (p[0] & 0x80) && size <= WS_CONTROL_MAX;
	return opcode <= WS_BINARY;
}

long ws_decode(uint8_t *p, size_t len, size_t max, struct ws_frame *ret)
{
	unsigned more;
	size_t header;
	uint64_t size;
	uint8_t *payload, mask[4];

	if (len < 2)
		return 0;
	if (!is_fine(p))
		return -1;
	size = p[1] & 127;
	more = size == 126 ? 2 : size == 127 ? 8 : 0;
	header = 2 + more + sizeof(mask);
	if (len < header)
		return 0;
	if (more)
		size = get_be(p + 2, more);
	if (size > max)
		return -1;
	if (len - header < size)
		return 0;
	payload = p + header;
	memcpy(mask, p + 2 + more, sizeof(mask));
	for (uint64_t i = 0; i < size; i++)
		payload[i] ^= mask[i % sizeof(mask)];
	*ret = (struct ws_frame){.last = p[0] & 0x80,
		.opcode = (enum ws_opcode)(p[0] & 15),
		.payload = {payload, size}};
	return (long)(header + size);
}

static void put_be(uint8_t *p, uint64_t v, unsigned n)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

void ws_put(struct buf *out, enum ws_opcode opcode, const void *p, size_t n)
{
	uint8_t header[WS_HEADER_MAX] = {(uint8_t)(0x80 | opcode)};
	unsigned more = n < 126 ? 0 : n < 65536 ? 2 : 8;

	header[1] = (uint8_t)(more == 0 ? n : more == 2 ? 126 : 127);
	put_be(header + 2, n, more);
	buf_put(out, header, 2 + more);
	buf_put(out, p, n);
}

void ws_put_close(struct buf *out, unsigned code, const char *text)
{
	uint8_t payload[WS_CONTROL_MAX];
	size_t len = strnlen(text, sizeof(payload) - 2);

	put_be(payload, code, 2);
	memcpy(payload + 2, text, len);
	ws_put(out, WS_CLOSE, payload, len + 2);
}
