/*
 * http.h - heads of HTTP requests: GET without a body is all that the console takes. Pure: tests
 * and fuzzers call these very functions.
 */
#pragma once

#include <stdbool.h>

#include "util/buf.h"

enum {
	HTTP_HEAD_MAX = 8 * 1024,
	HTTP_FIELDS_MAX = 64,
	HTTP_TEXT_MAX = 255, /* of a field that matters here, and of the path */
};

struct http_head {
	char path[HTTP_TEXT_MAX + 1]; /* without the query */
	char host[HTTP_TEXT_MAX + 1]; /* "": none */
	char origin[HTTP_TEXT_MAX + 1];
	char key[HTTP_TEXT_MAX + 1]; /* Sec-WebSocket-Key */
	bool upgrade;                /* it asks for a websocket of version 13 */
};

/* The status that a head is answered with; HTTP_OK: it has been read. */
enum http_status {
	HTTP_OK = 200,
	HTTP_SWITCHING = 101,
	HTTP_BAD = 400,
	HTTP_FORBIDDEN = 403,
	HTTP_NOT_FOUND = 404,
	HTTP_METHOD = 405,
	HTTP_MISDIRECTED = 421,
	HTTP_UPGRADE = 426,
	HTTP_TOO_LARGE = 431,
};

/* Returns the length of the head at the beginning of the bytes, with *ret_status; 0: it is not
 * complete yet. A head that is wrong or too long is -1, with *ret_status. */
long http_head_read(struct bytes in, struct http_head *ret, enum http_status *ret_status);

/* Whether a request may be answered: it names this server by one of the names of loopback, and if
 * it comes from a page, from a page of this server. HTTP_OK, or why not. */
enum http_status http_head_check(const struct http_head *head, unsigned port);

/* Adds an answer with the headers that confine the page. `host` has been checked. encoding may be
 * NULL. */
struct http_answer {
	enum http_status status;
	const char *host, *type, *encoding;
	struct bytes body;
};
void http_answer_put(struct buf *out, const struct http_answer *a);
/* Adds the answer to the handshake of a websocket. */
void http_switch_put(struct buf *out, const struct http_head *head);
