#include "driver/proxmox/guest/term.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "wire/ascii.h"
#include "driver/proxmox/api/conn.h"
#include "driver/proxmox/guest/websocket.h"
#include "util/auto.h"
#include "wire/base64.h"
#include "util/system/io.h"
#include "util/str.h"
#include "util/thread/thread.h"

enum {
	READ_SIZE = 16 * 1024,
	IN_MAX = WS_PAYLOAD_MAX + WS_HEAD_MAX,
	KEY_BYTES = 16,
};
#define OPEN_S       30.0
#define KEEP_ALIVE_S 15.0 /* the server may close a terminal from which nothing comes */

struct pve_term {
	struct pve_conn *conn;
	int fd; /* our end of the socket to the stream's user */
	struct op op;
	pthread_t thread;
	bool started;
	struct buf in;
	struct term_codec codec;
	struct ascii_reader reader;
};

DEFINE_AUTO(auto_termp, struct pve_term, pve_term_close)

void pve_term_close(struct pve_term *t)
{
	if (!t)
		return;
	op_cancel(&t->op);
	if (t->started)
		thread_join(t->thread);
	if (t->fd >= 0)
		close(t->fd);
	pve_conn_close(t->conn);
	buf_free(&t->in);
	op_done(&t->op);
	free(t);
}

int term_encode(struct term_codec *c, struct bytes in, struct buf *ret, struct err *e)
{
	char line[ASCII_LINE_MAX];

	while (in.len) {
		size_t n = in.len < ASCII_PIECE ? in.len : ASCII_PIECE;
		size_t len = ascii_line(ASCII_TO_GUEST, c->number, in.p, n, line);

		c->number = ascii_next(c->number);
		if (ws_put_term(ret, (struct bytes){(uint8_t *)line, len}, c->key, e) < 0)
			return -1;
		in.p += n;
		in.len -= n;
	}
	return 0;
}

int term_decode(struct term_codec *c, struct bytes text, struct buf *ret, struct err *e)
{
	const char *p = (const char *)text.p;
	uint8_t bytes[ASCII_PIECE];
	enum ascii_event news;
	size_t n = 0;

	while ((news = ascii_read(c->reader, &p, &text.len, bytes, &n)) != ASCII_NOTHING) {
		if (news == ASCII_LOST)
			return err_set(e, ERR_UNAVAILABLE, "the serial port has lost bytes");
		if (buf_add(ret, bytes, n, e) < 0)
			return -1;
	}
	return 0;
}

/* Opening. */

static int ask_for_websocket(struct pve_agent *a, struct pve_term *t, const struct op *op,
	const char *path, struct err *e)
{
	uint8_t random[KEY_BYTES];
	char key[2 * KEY_BYTES];
	struct buf request = {0};
	int rc = -1;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, errno, "getrandom");
	base64_encode((struct bytes){random, sizeof(random)}, key);
	memcpy(&t->codec.key, random, sizeof(t->codec.key));
	if (buf_printf(&request, e, "GET %s HTTP/1.1\r\n", path) == 0 &&
		pve_api_headers(a->api, op, true, &request, e) == 0 &&
		buf_printf(&request, e,
			"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
			"Sec-WebSocket-Protocol: binary\r\nSec-WebSocket-Key: %s\r\n\r\n",
			key) == 0)
		rc = pve_conn_send(t->conn, op, buf_data(&request), request.len, e);
	if (request.p)
		explicit_bzero(request.p, request.cap);
	buf_free(&request);
	return rc;
}

static int await_answer(struct pve_term *t, const struct op *op, struct err *e)
{
	for (;;) {
		long n = ws_answer(buf_bytes(&t->in), e);

		if (n < 0)
			return -1;
		if (n > 0) {
			buf_drop(&t->in, (size_t)n);
			return 0;
		}
		if (pve_conn_recv(t->conn, op, &t->in, READ_SIZE, e) < 0)
			return -1;
	}
}

/* The server's helper for terminals wants a login of its own, in the first message. */
static int log_in(struct pve_term *t, const struct op *op, const char *user, const char *ticket,
	struct err *e)
{
	auto_buf struct buf frame = {0}, said = {0};
	char *words = NULL;
	int rc;

	if (str_printf(&words, e, "%s:%s\n", user, ticket) < 0)
		return -1;
	rc = ws_put(&frame, WS_BINARY, (struct bytes){(uint8_t *)words, strlen(words)},
		t->codec.key, e);
	explicit_bzero(words, strlen(words));
	free(words);
	if (rc < 0 || pve_conn_send(t->conn, op, buf_data(&frame), frame.len, e) < 0)
		return -1;
	while (said.len < 2) {
		struct ws_frame f;
		long n = ws_get(buf_bytes(&t->in), &f);

		if (n < 0 || (n > 0 && f.opcode == WS_CLOSE))
			return err_set(e, ERR_BACKEND, "the server's terminal refused us");
		if (n > 0) {
			if ((f.opcode == WS_TEXT || f.opcode == WS_BINARY) && f.payload.len &&
				buf_add(&said, f.payload.p, f.payload.len, e) < 0)
				return -1;
			buf_drop(&t->in, (size_t)n);
		} else if (pve_conn_recv(t->conn, op, &t->in, READ_SIZE, e) < 0) {
			return -1;
		}
	}
	if (memcmp(buf_data(&said), "OK", 2) != 0)
		return err_set(e, ERR_BACKEND, "the server's terminal refused us");
	return 0;
}

/* Some servers send the port's number as a string. */
static int port_of(const json_t *value, unsigned *ret, struct err *e)
{
	const char *text = json_string_value(value);
	long long port = text ? atoll(text) : json_integer_value(value);

	if (port <= 0 || port > UINT16_MAX)
		return err_set(e, ERR_BACKEND, "the server named no port for the terminal");
	*ret = (unsigned)port;
	return 0;
}

static int open_websocket(struct pve_agent *a, struct pve_term *t, const struct op *op,
	const char *serial, struct err *e)
{
	auto_json json_t *proxy = NULL;
	auto_free char *path = NULL;
	const char *user, *ticket;
	json_t *params = NULL;
	unsigned port;
	int rc;

	if (json_make(&params, e, "{s:s}", "serial", serial) < 0 ||
		pve_do(a->api, op, "POST", params, 0, &proxy, e, "/nodes/%s/qemu/%u/termproxy",
			a->node, a->vmid) < 0)
		return -1;
	user = json_string_value(json_object_get(proxy, "user"));
	ticket = json_string_value(json_object_get(proxy, "ticket"));
	if (!user || !ticket)
		return err_set(e, ERR_BACKEND, "the server gave no ticket for the terminal");
	if (port_of(json_object_get(proxy, "port"), &port, e) < 0 ||
		pve_path(&path, e, "/api2/json/nodes/%s/qemu/%u/vncwebsocket?port=%u&vncticket=%s",
			a->node, a->vmid, port, ticket) < 0 ||
		pve_conn_open(a->api, op, &t->conn, e) < 0)
		return -1;
	rc = ask_for_websocket(a, t, op, path, e);
	explicit_bzero(path, strlen(path));
	if (rc < 0 || await_answer(t, op, e) < 0)
		return -1;
	return log_in(t, op, user, ticket, e);
}

/* The bridge. */

static int send_frames(struct pve_term *t, struct buf *frames, struct err *e)
{
	int rc = frames->len ? pve_conn_send(t->conn, &t->op, buf_data(frames), frames->len, e) : 0;

	buf_free(frames);
	return rc;
}

static int from_user(struct pve_term *t, struct err *e)
{
	uint8_t bytes[READ_SIZE];
	auto_buf struct buf frames = {0};
	ssize_t n = recv(t->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return err_set(e, ERR_UNAVAILABLE, "the line was closed");
	if (term_encode(&t->codec, (struct bytes){bytes, (size_t)n}, &frames, e) < 0)
		return -1;
	return send_frames(t, &frames, e);
}

static int take_frame(struct pve_term *t, const struct ws_frame *f, struct err *e)
{
	auto_buf struct buf out = {0};

	switch (f->opcode) {
	case WS_MORE:
	case WS_TEXT:
	case WS_BINARY:
		if (term_decode(&t->codec, f->payload, &out, e) < 0)
			return -1;
		return out.len ? io_write_all(&t->op, t->fd, buf_data(&out), out.len, e) : 0;
	case WS_PING:
		if (ws_put(&out, WS_PONG, f->payload, t->codec.key, e) < 0)
			return -1;
		return send_frames(t, &out, e);
	case WS_CLOSE:
		return err_set(e, ERR_UNAVAILABLE, "the server closed the terminal");
	default:
		return 0;
	}
}

static int take_frames(struct pve_term *t, struct err *e)
{
	for (;;) {
		struct ws_frame f;
		long n = ws_get(buf_bytes(&t->in), &f);

		if (n < 0 || t->in.len > IN_MAX)
			return err_set(e, ERR_UNAVAILABLE, "the server's websocket is broken");
		if (n == 0)
			return 0;
		if (take_frame(t, &f, e) < 0)
			return -1;
		buf_drop(&t->in, (size_t)n);
	}
}

static int from_server(struct pve_term *t, struct err *e)
{
	ssize_t got;

	while ((got = pve_conn_recv_now(t->conn, &t->in, READ_SIZE, e)) > 0)
		if (take_frames(t, e) < 0)
			return -1;
	return got < 0 ? -1 : 0;
}

static int keep_alive(struct pve_term *t, struct err *e)
{
	auto_buf struct buf frame = {0};

	if (ws_put(&frame, WS_BINARY, (struct bytes){(const uint8_t *)"2", 1}, t->codec.key, e) < 0)
		return -1;
	return send_frames(t, &frame, e);
}

static int bridge(struct pve_term *t, struct err *e)
{
	struct pollfd fds[] = {
		{.fd = t->fd, .events = POLLIN},
		{.fd = pve_conn_fd(t->conn), .events = POLLIN},
	};

	if (take_frames(t, e) < 0)
		return -1;
	for (;;) {
		struct op part = op_within(&t->op, KEEP_ALIVE_S);

		/* First, because bytes may wait inside libcurl, where poll does not see them. */
		if (from_server(t, e) < 0)
			return -1;
		if (op_wait_fds(&part, fds, ARRAY_LEN(fds), e) < 0) {
			if (e->kind != ERR_TIMEOUT || keep_alive(t, e) < 0)
				return -1;
			continue;
		}
		if (fds[0].revents && from_user(t, e) < 0)
			return -1;
	}
}

static void *bridge_main(void *arg)
{
	struct pve_term *t = arg;
	struct err e;

	bridge(t, &e);
	shutdown(t->fd, SHUT_RDWR); /* the user of the stream sees the end */
	return NULL;
}

static int start_bridge(struct pve_term *t, int *ret_fd, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");
	t->fd = pair[0];
	if (fd_set_nonblock(t->fd, e) < 0) {
		close(pair[1]);
		return -1;
	}
	if (thread_start(&t->thread, "pve-term", bridge_main, t, e) < 0) {
		close(pair[1]);
		return -1;
	}
	t->started = true;
	*ret_fd = pair[1];
	return 0;
}

int pve_term_open(struct pve_agent *a, const struct op *op, const char *serial,
	struct pve_term **ret, int *ret_fd, struct err *e)
{
	__attribute__((cleanup(auto_termp))) struct pve_term *t = calloc(1, sizeof(*t));
	struct op part = op_within(op, OPEN_S);

	if (!t)
		return err_oom(e);
	t->fd = -1;
	t->op.cancel_fd = -1;
	t->reader.side = ASCII_TO_HOST;
	t->codec.reader = &t->reader;
	if (op_init(&t->op, "term", 0, e) < 0 || open_websocket(a, t, &part, serial, e) < 0 ||
		start_bridge(t, ret_fd, e) < 0)
		return err_wrap(e, "the terminal of VM %u", a->vmid);
	*ret = take_ptr(&t);
	return 0;
}
