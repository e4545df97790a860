#include "web/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/auto.h"
#include "web/websocket.h"

/* A line without its end. */
struct line {
	const char *p;
	size_t len;
};

/* The letters that names of fields and methods are made of. */
static bool is_token(struct line l)
{
	for (size_t i = 0; i < l.len; i++)
		if (!l.p[i] ||
			(!strchr("!#$%&'*+-.^_`|~", l.p[i]) && !(l.p[i] >= '0' && l.p[i] <= '9') &&
				!((l.p[i] | 32) >= 'a' && (l.p[i] | 32) <= 'z')))
			return false;
	return l.len > 0;
}

static bool is_printable(struct line l)
{
	for (size_t i = 0; i < l.len; i++)
		if ((l.p[i] < ' ' && l.p[i] != '\t') || l.p[i] == 127)
			return false; /* char may be signed: bytes over 127 are refused, too */
	return true;
}

static bool is(struct line l, const char *text)
{
	return l.len == strlen(text) && strncasecmp(l.p, text, l.len) == 0;
}

static struct line trimmed(struct line l)
{
	while (l.len && (*l.p == ' ' || *l.p == '\t'))
		l = (struct line){l.p + 1, l.len - 1};
	while (l.len && (l.p[l.len - 1] == ' ' || l.p[l.len - 1] == '\t'))
		l.len--;
	return l;
}

/* Copies a value that may be there once. */
static bool keep(struct line value, char *to)
{
	if (*to || !value.len || value.len > HTTP_TEXT_MAX)
		return false;
	memcpy(to, value.p, value.len);
	to[value.len] = 0;
	return true;
}

/* Whether a list of words with commas between them has a word. */
static bool lists(struct line value, const char *word)
{
	while (value.len) {
		const char *comma = memchr(value.p, ',', value.len);
		size_t len = comma ? (size_t)(comma - value.p) : value.len;

		if (is(trimmed((struct line){value.p, len}), word))
			return true;
		value.p += comma ? len + 1 : len;
		value.len -= comma ? len + 1 : len;
	}
	return false;
}

struct reading {
	struct http_head *head;
	bool to_websocket, by_connection, version;
	unsigned fields;
};

static enum http_status read_field(struct reading *r, struct line l)
{
	const char *colon = memchr(l.p, ':', l.len);
	struct line name = {l.p, colon ? (size_t)(colon - l.p) : 0}, value;
	bool fine = true;

	if (++r->fields > HTTP_FIELDS_MAX)
		return HTTP_TOO_LARGE;
	if (!is_token(name) || !is_printable(l))
		return HTTP_BAD;
	value = trimmed((struct line){colon + 1, l.len - name.len - 1});
	if (is(name, "Host"))
		fine = keep(value, r->head->host);
	else if (is(name, "Origin"))
		fine = keep(value, r->head->origin);
	else if (is(name, "Sec-WebSocket-Key"))
		fine = keep(value, r->head->key);
	else if (is(name, "Sec-WebSocket-Version"))
		r->version = is(value, "13");
	else if (is(name, "Upgrade"))
		r->to_websocket = lists(value, "websocket");
	else if (is(name, "Connection"))
		r->by_connection |= lists(value, "upgrade");
	else if (is(name, "Transfer-Encoding"))
		fine = false; /* nothing here has a body */
	else if (is(name, "Content-Length"))
		fine = is(value, "0");
	return fine ? HTTP_OK : HTTP_BAD;
}

static enum http_status read_request(struct http_head *head, struct line l)
{
	const char *space = memchr(l.p, ' ', l.len);
	struct line method = {l.p, space ? (size_t)(space - l.p) : 0}, path, version;
	const char *end;

	if (!is_token(method) || !is_printable(l))
		return HTTP_BAD;
	path = (struct line){space + 1, l.len - method.len - 1};
	space = memchr(path.p, ' ', path.len);
	if (!space || *path.p != '/')
		return HTTP_BAD;
	version = (struct line){space + 1, path.len - (size_t)(space - path.p) - 1};
	path.len = (size_t)(space - path.p);
	if (version.len != 8 || memcmp(version.p, "HTTP/1.1", 8) != 0)
		return HTTP_BAD;
	if (method.len != 3 || memcmp(method.p, "GET", 3) != 0)
		return HTTP_METHOD;
	end = memchr(path.p, '?', path.len);
	path.len = end ? (size_t)(end - path.p) : path.len;
	return keep(path, head->path) ? HTTP_OK : HTTP_BAD;
}

/* The next line, which ends with CR LF. */
static bool take_line(struct bytes *in, struct line *ret)
{
	const uint8_t *end = memmem(in->p, in->len, "\r\n", 2);

	if (!end)
		return false;
	*ret = (struct line){(const char *)in->p, (size_t)(end - in->p)};
	in->len -= ret->len + 2;
	in->p = end + 2;
	return true;
}

long http_head_read(struct bytes in, struct http_head *ret, enum http_status *ret_status)
{
	size_t looked = in.len < HTTP_HEAD_MAX ? in.len : HTTP_HEAD_MAX;
	const uint8_t *end = looked ? memmem(in.p, looked, "\r\n\r\n", 4) : NULL;
	struct http_head head = {0};
	struct reading r = {.head = &head};
	struct bytes left = {in.p, end ? (size_t)(end - in.p) + 2 : 0};
	enum http_status status;
	struct line l = {0};

	*ret_status = HTTP_TOO_LARGE;
	if (!end)
		return looked == HTTP_HEAD_MAX ? -1 : 0;
	status = take_line(&left, &l) ? read_request(&head, l) : HTTP_BAD;
	while (status == HTTP_OK && take_line(&left, &l))
		status = read_field(&r, l);
	*ret_status = status;
	if (status != HTTP_OK)
		return -1;
	head.upgrade = r.to_websocket && r.by_connection && r.version && head.key[0];
	*ret = head;
	return end + 4 - in.p;
}

/* Whether a text is PREFIX, a name of loopback, and this port. */
static bool is_ours(const char *text, const char *prefix, unsigned port)
{
	static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
	char ours[64];

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(ours, sizeof(ours), "%s%s:%u", prefix, names[i], port);
		if (strcasecmp(text, ours) == 0)
			return true;
		/* Browsers leave out the port that HTTP has by itself. */
		snprintf(ours, sizeof(ours), "%s%s", prefix, names[i]);
		if (port == 80 && strcasecmp(text, ours) == 0)
			return true;
	}
	return false;
}

enum http_status http_head_check(const struct http_head *head, unsigned port)
{
	if (!is_ours(head->host, "", port))
		return HTTP_MISDIRECTED;
	if (*head->origin ? !is_ours(head->origin, "http://", port) : head->upgrade)
		return HTTP_FORBIDDEN;
	return HTTP_OK;
}

static const char *reason(enum http_status status)
{
	static const struct {
		enum http_status status;
		const char *text;
	} reasons[] = {{HTTP_OK, "OK"}, {HTTP_BAD, "Bad Request"}, {HTTP_FORBIDDEN, "Forbidden"},
		{HTTP_NOT_FOUND, "Not Found"}, {HTTP_METHOD, "Method Not Allowed"},
		{HTTP_MISDIRECTED, "Misdirected Request"}, {HTTP_UPGRADE, "Upgrade Required"},
		{HTTP_TOO_LARGE, "Request Header Fields Too Large"}};

	for (unsigned i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Error";
}

void http_answer_put(struct buf *out, const struct http_answer *a)
{
	const char *host = a->host ? a->host : "";
	struct bytes body = a->body;

	if (a->status != HTTP_OK)
		body = (struct bytes){
			(const uint8_t *)reason(a->status), strlen(reason(a->status))};
	buf_putf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", a->status,
		reason(a->status), a->status == HTTP_OK ? a->type : "text/plain", body.len);
	if (a->encoding)
		buf_putf(out, "Content-Encoding: %s\r\n", a->encoding);
	buf_putf(out,
		"Connection: close\r\n"
		"Cache-Control: no-store\r\n"
		"X-Content-Type-Options: nosniff\r\n"
		"X-Frame-Options: DENY\r\n"
		"Referrer-Policy: no-referrer\r\n"
		"Cross-Origin-Opener-Policy: same-origin\r\n"
		"Cross-Origin-Resource-Policy: same-origin\r\n"
		"Content-Security-Policy: default-src 'none'; script-src 'self'; connect-src "
		"'self' "
		"ws://%s; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; "
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n\r\n",
		host);
	buf_put(out, body.p, body.len);
}

void http_switch_put(struct buf *out, const struct http_head *head)
{
	char accept[WS_ACCEPT_SIZE];

	ws_accept(head->key, accept);
	buf_putf(out,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		accept);
}
