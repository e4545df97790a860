/*
 * websocket.h - the server's end of websockets (RFC 6455): messages come in masked frames, ours
 * leave unmasked and whole. Pure: tests and fuzzers call these very functions.
 */
#pragma once

#include "util/buf.h"

enum { WS_ACCEPT_SIZE = 29, WS_KEY_MAX = 83, WS_HEADER_MAX = 10, WS_CONTROL_MAX = 125 };

enum ws_opcode { WS_MORE = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

/* The answer to a Sec-WebSocket-Key; of a longer one only WS_KEY_MAX bytes count. */
void ws_accept(const char *key, char ret[WS_ACCEPT_SIZE]);

struct ws_frame {
	bool last; /* of its message */
	enum ws_opcode opcode;
	struct bytes payload; /* within the bytes that were decoded, unmasked */
};

/* Decodes the frame at the beginning of the bytes, and unmasks it there. Returns its size, 0 if it
 * is not complete, -1 if it breaks the rules or has more than max bytes. */
long ws_decode(uint8_t *p, size_t len, size_t max, struct ws_frame *ret);

/* Adds a whole message. */
void ws_put(struct buf *out, enum ws_opcode opcode, const void *p, size_t n);
/* Adds a close frame; text is short. */
void ws_put_close(struct buf *out, unsigned code, const char *text);
