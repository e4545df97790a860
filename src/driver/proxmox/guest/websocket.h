/*
 * websocket.h - websocket frames (RFC 6455) as a client needs them, and what a Proxmox VE terminal
 * says in them. Pure; the bytes come from the network.
 */
#pragma once

#include "util/buf.h"

enum ws_opcode { WS_MORE = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };
enum { WS_HEAD_MAX = 14, WS_PAYLOAD_MAX = 1024 * 1024 };

struct ws_frame { /* a view into the bytes that were read */
	enum ws_opcode opcode;
	struct bytes payload;
};

/* Appends a whole frame, masked with the key. */
int ws_put(struct buf *b, enum ws_opcode opcode, struct bytes payload, uint32_t key, struct err *e);
/* The size of the frame at the beginning; 0: more bytes are needed; -1: no frame of a server. */
long ws_get(struct bytes in, struct ws_frame *ret);

/*
 * The length of the server's answer to a request for a websocket; 0: more bytes are needed. -1 and
 * e if the server refuses.
 */
enum { WS_ANSWER_MAX = 16 * 1024 };
long ws_answer(struct bytes in, struct err *e);

/* Bytes for the terminal as its helper wants them: "0:LENGTH:BYTES", in one frame. */
int ws_put_term(struct buf *b, struct bytes input, uint32_t key, struct err *e);
