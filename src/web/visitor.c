#include "web/visitor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/proto.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/system/io.h"
#include "web/allow.h"
#include "web/http.h"
#include "web/page.h"
#include "web/websocket.h"
#include "wire/frame.h"

enum {
	PIECE = 64 * 1024,
	UNSENT_MAX = 1024 * 1024, /* above it nothing more is read for that side */
	FRAME_MAX = FRAME_HEADER + PROTO_JSON_MAX + PROTO_BLOB_MAX,
	STRANGER_MAX = 512, /* a message of who has not said the token */
};

#define HEAD_SECONDS  10
#define LEAVE_SECONDS 5

/* Codes of closing that the page knows; those of the protocol are below 4000. */
enum {
	CLOSE_GOING = 1001,
	CLOSE_WRONG = 1008,
	CLOSE_NO_DAEMON = 4000,
	CLOSE_TOKEN = 4001,
	CLOSE_FULL = 4002
};

static const struct frame_limits limits = {
	.head_min = 2, .head_max = PROTO_JSON_MAX, .body_max = PROTO_BLOB_MAX};

static void give_time(struct visitor *v, unsigned seconds)
{
	v->deadline_ns = now_ns() + seconds * 1000000000LL;
}

struct visitor *visitor_new(int fd)
{
	struct visitor *v = calloc(1, sizeof(*v));

	if (!v) {
		close(fd);
		return NULL;
	}
	v->fd = fd;
	v->link = -1;
	give_time(v, HEAD_SECONDS);
	return v;
}

void visitor_free(struct visitor *v)
{
	if (!v)
		return;
	close(v->fd);
	if (v->link >= 0)
		close(v->link);
	buf_free(&v->in);
	buf_free(&v->out);
	buf_free(&v->link_in);
	buf_free(&v->link_out);
	buf_free(&v->message);
	free(v);
}

void visitor_wants(const struct visitor *v, struct pollfd fds[2])
{
	bool more = v->out.len < UNSENT_MAX;
	/* Bytes of a visitor who leaves are thrown away, so they take no room. */
	bool reads = v->state == VISITOR_LEAVES || (more && v->link_out.len < UNSENT_MAX);

	fds[0] = (struct pollfd){
		.fd = v->fd, .events = (short)((reads ? POLLIN : 0) | (v->out.len ? POLLOUT : 0))};
	fds[1] = (struct pollfd){.fd = v->link,
		.events = (short)((more ? POLLIN : 0) | (v->link_out.len ? POLLOUT : 0))};
}

/* Nothing more is done for it; what is in v->out is still sent. */
static void leave(struct visitor *v)
{
	v->state = VISITOR_LEAVES;
	give_time(v, LEAVE_SECONDS);
	if (v->link >= 0)
		close(v->link);
	v->link = -1;
	buf_drop(&v->in, v->in.len);
}

static void hang_up(struct visitor *v, unsigned code, const char *why)
{
	ws_put_close(&v->out, code, why);
	leave(v);
}

/* Sends what the socket takes. False: it is broken. */
static bool flush(int fd, struct buf *out)
{
	while (out->len) {
		ssize_t n = send(fd, buf_data(out), out->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		buf_drop(out, (size_t)n);
	}
	return true;
}

/* ---- the request ---- */

static void answer(struct visitor *v, const struct http_head *head, enum http_status status)
{
	const struct page_file *file = status == HTTP_OK ? page_find(head->path) : NULL;
	struct http_answer a = {.status = status, .host = head->host};

	if (status == HTTP_OK && strcmp(head->path, "/socket") == 0)
		a.status = HTTP_UPGRADE;
	else if (status == HTTP_OK && !file)
		a.status = HTTP_NOT_FOUND;
	if (file) {
		a.type = file->type;
		a.encoding = "gzip";
		a.body = file->packed;
	}
	http_answer_put(&v->out, &a);
	leave(v);
}

static void read_head(struct visitor *v, const struct visit_rules *rules)
{
	struct http_head head = {0};
	enum http_status status;
	long n = http_head_read(buf_bytes(&v->in), &head, &status);

	if (n == 0)
		return;
	if (n > 0) {
		buf_drop(&v->in, (size_t)n);
		status = http_head_check(&head, rules->port);
	}
	if (status != HTTP_OK)
		head.host[0] = 0; /* it goes into a header, so only a checked one may */
	if (status != HTTP_OK || !head.upgrade || strcmp(head.path, "/socket") != 0) {
		answer(v, &head, status);
		return;
	}
	http_switch_put(&v->out, &head);
	v->state = VISITOR_TOKEN;
	give_time(v, HEAD_SECONDS);
}

/* ---- messages of the websocket ---- */

/* Compares in a time that does not tell how much was right. */
static bool is_token(const char *said, size_t len, const char *token)
{
	unsigned differs = len != TOKEN_SIZE - 1;

	for (size_t i = 0; i < TOKEN_SIZE - 1; i++)
		differs |= (unsigned char)token[i] ^ (unsigned char)(i < len ? said[i] : 0);
	return differs == 0;
}

static void say_ready(struct visitor *v, const struct visit_rules *rules)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "{\"ready\":true,\"read_only\":%s,\"version\":\"%s\"}",
		rules->read_only ? "true" : "false", MOAT_VERSION);

	ws_put(&v->out, WS_TEXT, text, (size_t)n);
}

/* A stranger's only message. */
static void take_token(struct visitor *v, const struct visit_rules *rules, json_t *said)
{
	const json_t *token = json_object_get(said, "token");
	struct err e;

	if (!json_is_string(token) ||
		!is_token(json_string_value(token), json_string_length(token), rules->token))
		hang_up(v, CLOSE_TOKEN, "the token is not that of this console");
	else if (!rules->room)
		hang_up(v, CLOSE_FULL, "too many pages are open");
	else if (rules->link(rules->arg, &v->link, &e) < 0)
		hang_up(v, CLOSE_NO_DAEMON, "no daemon is running");
	else {
		v->state = VISITOR_LINKED;
		say_ready(v, rules);
	}
}

static void take_text(struct visitor *v, const struct visit_rules *rules, struct bytes text)
{
	auto_json json_t *said = NULL;
	struct err e;

	if (json_parse_small(text, &said, &e) < 0)
		hang_up(v, CLOSE_WRONG, "not a message of the page");
	else if (v->state == VISITOR_TOKEN)
		take_token(v, rules, said);
	else
		v->acting = !rules->read_only && json_is_true(json_object_get(said, "act"));
}

/* Puts a frame of ours into a message: the answer to a request that goes no further. */
static int put_refusal(
	struct visitor *v, const json_t *request, const struct err *why, struct err *e)
{
	auto_json json_t *answer = NULL;
	auto_free char *text = NULL;
	auto_buf struct buf frame = {0};
	uint8_t header[FRAME_HEADER];

	if (json_make(&answer, e, "{s:s, s:O?, s:{s:s, s:s}}", "type", "error", "id",
		    json_object_get(request, "id"), "error", "kind", err_kind_name(why->kind),
		    "message", why->msg) < 0 ||
		json_to_str(answer, &text, e) < 0)
		return -1;
	frame_encode_header(header, (uint32_t)strlen(text), 0);
	buf_put(&frame, header, sizeof(header));
	buf_puts(&frame, text);
	if (buf_check(&frame, e) < 0)
		return -1;
	ws_put(&v->out, WS_BINARY, buf_data(&frame), frame.len);
	return 0;
}

/* A message is one frame of the client protocol. */
static void take_frame(struct visitor *v, struct bytes message)
{
	auto_json json_t *frame = NULL;
	enum allow allowed;
	struct err e = {0}, why = {0};
	struct frame f;

	if (frame_decode(message.p, message.len, &limits, &f) != (long)message.len ||
		json_parse_object((struct bytes){f.head, f.head_len}, &frame, &e) < 0) {
		hang_up(v, CLOSE_WRONG, "not a frame");
		return;
	}
	allowed = allow_frame(frame, v->acting, &why);
	if (allowed == ALLOW_PASS)
		buf_put(&v->link_out, message.p, message.len);
	else if (allowed == ALLOW_BREAK || put_refusal(v, frame, &why, &e) < 0)
		hang_up(v, CLOSE_WRONG, why.msg);
}

static void take_message(
	struct visitor *v, const struct visit_rules *rules, bool text, struct bytes message)
{
	if (text)
		take_text(v, rules, message);
	else if (v->state == VISITOR_LINKED)
		take_frame(v, message);
	else
		hang_up(v, CLOSE_TOKEN, "the token comes first");
}

/* Puts the pieces of a message together. False: it breaks the rules. */
static bool take_piece(struct visitor *v, const struct visit_rules *rules, const struct ws_frame *f)
{
	size_t max = v->state == VISITOR_LINKED ? FRAME_MAX : STRANGER_MAX;

	if ((f->opcode == WS_MORE) != v->in_message || v->message.len + f->payload.len > max)
		return false;
	if (f->opcode != WS_MORE)
		v->text = f->opcode == WS_TEXT;
	v->in_message = !f->last;
	if (f->last && !v->message.len) {
		take_message(v, rules, v->text, f->payload);
		return true;
	}
	buf_put(&v->message, f->payload.p, f->payload.len);
	if (v->message.failed)
		return false;
	if (f->last) {
		take_message(v, rules, v->text, buf_bytes(&v->message));
		buf_drop(&v->message, v->message.len);
	}
	return true;
}

static bool is_websocket(const struct visitor *v)
{
	return v->state == VISITOR_TOKEN || v->state == VISITOR_LINKED;
}

static void take_frames(struct visitor *v, const struct visit_rules *rules)
{
	while (is_websocket(v) && v->link_out.len < UNSENT_MAX && v->out.len < UNSENT_MAX) {
		size_t max = v->state == VISITOR_LINKED ? FRAME_MAX : STRANGER_MAX;
		struct ws_frame f;
		long n = ws_decode(buf_data(&v->in), v->in.len, max, &f);
		size_t had = v->in.len;

		if (n == 0)
			return;
		if (n < 0 || f.opcode == WS_CLOSE) {
			hang_up(v, n < 0 ? CLOSE_WRONG : CLOSE_GOING, "");
			return;
		}
		if (f.opcode == WS_PING)
			ws_put(&v->out, WS_PONG, f.payload.p, f.payload.len);
		else if (f.opcode != WS_PONG && !take_piece(v, rules, &f))
			hang_up(v, CLOSE_WRONG, "not a message of the page");
		if (v->in.len == had)
			buf_drop(&v->in, (size_t)n); /* it is empty when it leaves */
	}
}

/* ---- the two sockets ---- */

/* What comes after its end is thrown away: closing a socket with unread bytes in it could destroy
 * the answer on its way. */
static void read_own(struct visitor *v, const struct visit_rules *rules)
{
	struct err e;
	ssize_t n = io_fill_now(&v->in, v->fd, PIECE, &e);

	if (n < 0 && e.sys == EAGAIN)
		return;
	if (n <= 0) {
		v->state = VISITOR_GONE;
		return;
	}
	if (v->state == VISITOR_HEAD)
		read_head(v, rules);
	if (is_websocket(v))
		take_frames(v, rules);
	else if (v->state == VISITOR_LEAVES)
		buf_drop(&v->in, v->in.len);
}

/* Puts each frame of the daemon into a message. */
static void read_link(struct visitor *v)
{
	struct err e;
	ssize_t n = io_fill_now(&v->link_in, v->link, PIECE, &e);
	struct frame f;
	long whole;

	if (n < 0 && e.sys == EAGAIN)
		return;
	while ((whole = frame_decode(buf_data(&v->link_in), v->link_in.len, &limits, &f)) > 0) {
		ws_put(&v->out, WS_BINARY, buf_data(&v->link_in), (size_t)whole);
		buf_drop(&v->link_in, (size_t)whole);
	}
	if (n <= 0 || whole < 0)
		hang_up(v, CLOSE_NO_DAEMON, "the daemon has ended");
}

/* The end of one that leaves: everything was sent, and the other side has been told so. */
static void end_sending(struct visitor *v)
{
	if (v->state != VISITOR_LEAVES || v->out.len || v->wrote_all)
		return;
	v->wrote_all = true;
	if (shutdown(v->fd, SHUT_WR) < 0)
		v->state = VISITOR_GONE;
}

void visitor_run(struct visitor *v, const struct visit_rules *rules, const struct pollfd fds[2])
{
	if (fds[1].revents && v->link >= 0 && (fds[1].revents & ~POLLOUT))
		read_link(v);
	if (fds[0].revents & ~POLLOUT)
		read_own(v, rules);
	if (v->link >= 0 && !flush(v->link, &v->link_out))
		hang_up(v, CLOSE_NO_DAEMON, "the daemon has ended");
	/* There may be frames that waited for room on the way to the daemon. */
	if (v->state == VISITOR_LINKED)
		take_frames(v, rules);
	if (v->state != VISITOR_GONE && !flush(v->fd, &v->out))
		v->state = VISITOR_GONE;
	end_sending(v);
	if (v->out.failed || v->in.failed || v->link_out.failed || v->link_in.failed ||
		(v->state != VISITOR_LINKED && now_ns() > v->deadline_ns))
		v->state = VISITOR_GONE;
}
