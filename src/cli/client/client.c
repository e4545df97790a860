#include "cli/client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client/conn.h"
#include "cli/terminal/signals.h"
#include "cli/client/start.h"
#include "proto/proto.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/op.h"
#include "util/str.h"

#define HELLO_WAIT    20.0 /* enough for a busy host; a daemon that needs longer is stuck */
#define TICK          0.1
#define CONNECT_AGAIN 0.05

struct client {
	struct conn conn;
	uint64_t last_id;
	size_t window;
	long pid;
	long protocol;
	char version[64];
	uint8_t *piece; /* PROTO_PIECE bytes, for reading input */
};

void client_close(struct client *c)
{
	if (!c)
		return;
	conn_close(&c->conn);
	free(c->piece);
	free(c);
}

long client_daemon_pid(const struct client *c)
{
	return c->pid;
}

/* Turns a frame's error object into e. Returns -1. */
static int fail_with(const json_t *frame, struct err *e)
{
	const json_t *error = json_object_get(frame, "error");
	const char *kind = json_string_value(json_object_get(error, "kind"));
	const char *message = json_string_value(json_object_get(error, "message"));

	err_set(e, err_kind_from_name(kind ? kind : "internal"), "%s",
		message ? message : "the daemon gave no reason");
	e->sys = (int)json_integer_value(json_object_get(error, "errno"));
	return -1;
}

static int wait_hello(struct client *c, const struct op *op, struct err *e)
{
	auto_json json_t *head = NULL;
	struct bytes blob;
	const char *version;
	int got;

	while ((got = conn_next(&c->conn, &head, &blob, e)) == 0) {
		if (op_wait_fd(op, c->conn.fd, POLLIN, e) < 0)
			return err_wrap(e, "the daemon does not answer");
		if (conn_fill(&c->conn, e) < 0)
			return -1;
	}
	if (got < 0)
		return -1;
	if (json_object_get(head, "error"))
		return fail_with(head, e);
	c->protocol = (long)json_integer_value(json_object_get(head, "protocol"));
	c->pid = (long)json_integer_value(json_object_get(head, "pid"));
	c->window = (size_t)json_integer_value(json_object_get(head, "window"));
	version = json_string_value(json_object_get(head, "version"));
	str_escape(version ? version : "?", strlen(version ? version : "?"), c->version,
		sizeof(c->version));
	if (c->window == 0 || c->window > (1u << 30))
		c->window = PROTO_WINDOW;
	return 0;
}

static int shake_hands(struct client *c, long protocol, unsigned flags, struct err *e)
{
	struct op op = {.cancel_fd = signals_fd(), .deadline_ns = OP_NO_DEADLINE};
	struct op part = op_within(&op, HELLO_WAIT);
	json_t *hello = json_pack("{s:s, s:I, s:s}", "type", "hello", "protocol",
		(json_int_t)protocol, "client", "moat " MOAT_VERSION);

	if (hello && flags & CLIENT_URGENT)
		json_object_set_new(hello, "urgent", json_true());
	if (conn_put(&c->conn, hello, (struct bytes){0}, e) < 0 || conn_flush(&c->conn, e) < 0)
		return -1;
	return wait_hello(c, &part, e);
}

static int connect_to(const struct paths *paths, unsigned flags, int *ret_fd, struct err *e)
{
	struct op op = {.cancel_fd = signals_fd(), .deadline_ns = OP_NO_DEADLINE};
	struct op part = op_within(&op, HELLO_WAIT);

	if (daemon_connect(&part, paths, ret_fd, e) == 0)
		return 0;
	if (e->kind != ERR_UNAVAILABLE || !(flags & CLIENT_START))
		return -1;
	if (daemon_start(&op, paths, flags & CLIENT_ANY_CONFIG, e) < 0)
		return -1;
	part = op_within(&op, HELLO_WAIT);
	return daemon_connect(&part, paths, ret_fd, e);
}

static int open_once(const struct paths *paths, unsigned flags, long protocol, struct client **ret,
	bool *ret_connected, struct err *e)
{
	auto_client struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return err_oom(e);
	c->conn.fd = -1;
	c->piece = malloc(PROTO_PIECE);
	if (!c->piece)
		return err_oom(e);
	if (connect_to(paths, flags, &c->conn.fd, e) < 0)
		return -1;
	*ret_connected = true;
	if (shake_hands(c, protocol, flags, e) < 0)
		return -1;
	*ret = take_ptr(&c);
	return 0;
}

/* A daemon that hangs up before its hello has too many clients at the moment, or was about to exit
 * when we connected. Neither lasts, so try again. */
static int open_with(const struct paths *paths, unsigned flags, long protocol, struct client **ret,
	struct err *e)
{
	struct op op = {.cancel_fd = signals_fd(), .deadline_ns = OP_NO_DEADLINE};
	struct op part = op_within(&op, HELLO_WAIT);
	struct err why;

	for (;;) {
		bool connected = false;

		if (open_once(paths, flags, protocol, ret, &connected, e) == 0)
			return 0;
		if (!connected || e->kind != ERR_UNAVAILABLE)
			return -1;
		if (op_pause(&part, CONNECT_AGAIN, &why) < 0) {
			if (why.kind == ERR_CANCELLED)
				*e = why;
			return -1;
		}
	}
}

int client_open(const struct paths *paths, unsigned flags, struct client **ret, struct err *e)
{
	auto_client struct client *c = NULL;

	if (signals_setup(e) < 0 || open_with(paths, flags, PROTO_VERSION, &c, e) < 0)
		return -1;
	if (c->protocol != PROTO_VERSION && (flags & CLIENT_ANY_PROTOCOL)) {
		long theirs = c->protocol;

		client_close(take_ptr(&c));
		if (open_with(paths, flags & CLIENT_URGENT, theirs, &c, e) < 0)
			return -1;
	} else if (c->protocol != PROTO_VERSION) {
		return err_set(e, ERR_UNAVAILABLE,
			"the running daemon (pid %ld) is moat %s and speaks protocol %ld; this is "
			"moat "
			"%s and speaks %d\nstop it with `moat serve --stop`, which removes its "
			"sandboxes only with --force",
			c->pid, c->version, c->protocol, MOAT_VERSION, PROTO_VERSION);
	}
	*ret = take_ptr(&c);
	return 0;
}

/* A call that waits for its final frame. */
struct running {
	struct client *c;
	const struct call *call;
	uint64_t id;
	size_t credit;    /* input bytes that may be sent now */
	unsigned signals; /* signals_seen() when the call began: only later signals cancel it */
	bool input_ended, cancelled, failed_here;
	json_t *final;     /* the last frame */
	struct err *local; /* why this client cancelled the call, if failed_here */
};

static int send_about(struct running *r, const char *type, struct bytes blob, struct err *e)
{
	return conn_put(&r->c->conn, json_pack("{s:s, s:I}", "type", type, "id", (json_int_t)r->id),
		blob, e);
}

static int send_request(struct running *r, struct err *e)
{
	const struct call *call = r->call;
	const char *input = call->stream_input ? "stream" : call->blob.p ? "blob" : "none";
	json_t *args = call->args ? json_incref(call->args) : json_object();
	json_t *j = json_pack("{s:s, s:I, s:s, s:o, s:s}", "type", "request", "id",
		(json_int_t)r->id, "op", call->op, "args", args, "input", input);

	if (j && call->timeout > 0 &&
		json_object_set_new(j, "timeout", json_real(call->timeout)) < 0)
		return err_oom(e);
	return conn_put(&r->c->conn, j, call->blob, e);
}

static int send_cancel(struct running *r, struct err *e)
{
	if (r->cancelled)
		return 0;
	r->cancelled = true;
	return send_about(r, "cancel", (struct bytes){0}, e);
}

/* For a failure on our side (disk full, broken pipe): cancels the request, and the call ends as
 * usual. */
static int give_up(struct running *r, const struct err *why, struct err *e)
{
	if (!r->failed_here)
		*r->local = *why;
	r->failed_here = true;
	return send_cancel(r, e);
}

static int take_data(struct running *r, json_t *head, struct bytes blob, struct err *e)
{
	const char *name = json_string_value(json_object_get(head, "stream"));
	enum call_stream stream = CALL_BODY;
	struct err why;

	if (!name || r->failed_here || !r->call->data)
		return 0;
	if (strcmp(name, "stdout") == 0)
		stream = CALL_STDOUT;
	else if (strcmp(name, "stderr") == 0)
		stream = CALL_STDERR;
	if (r->call->data(r->call->arg, stream, blob, &why) < 0)
		return give_up(r, &why, e);
	return 0;
}

static int take_event(struct running *r, const json_t *head, struct err *e)
{
	struct err why;

	if (r->failed_here || !r->call->event ||
		r->call->event(r->call->arg, json_object_get(head, "event"), &why) == 0)
		return 0;
	return give_up(r, &why, e);
}

/* The end of the terminal is the end of the call, too. */
static int take_keys(struct running *r, struct err *e)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	bool end = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);

	for (ssize_t i = 0; i < n; i++)
		end |= r->call->key(r->call->arg, keys[i]);
	return end ? send_cancel(r, e) : 0;
}

static uint64_t get_count(json_t *head, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(head, name));

	return v > 0 ? (uint64_t)v : 0;
}

static int take_frame(struct running *r, json_t *head, struct bytes blob, struct err *e)
{
	const char *type = json_string_value(json_object_get(head, "type"));
	const char *text = json_string_value(json_object_get(head, "text"));
	json_t *id = json_object_get(head, "id");

	if (!type)
		return err_set(e, ERR_UNAVAILABLE, "the daemon sent a frame without type");
	if (strcmp(type, "error") == 0 && !id)
		return fail_with(head, e);
	if ((uint64_t)json_integer_value(id) != r->id)
		return 0;
	if (strcmp(type, "data") == 0)
		return take_data(r, head, blob, e);
	if (strcmp(type, "event") == 0)
		return take_event(r, head, e);
	if (strcmp(type, "credit") == 0) {
		uint64_t n = get_count(head, "bytes");

		r->credit += n < r->c->window - r->credit ? n : r->c->window - r->credit;
		if (r->call->sent)
			r->call->sent(r->call->arg, n);
	} else if (strcmp(type, "progress") == 0 && r->call->progress && text) {
		r->call->progress(
			r->call->arg, text, get_count(head, "done"), get_count(head, "total"));
	} else if (strcmp(type, "result") == 0 || strcmp(type, "error") == 0) {
		r->final = json_incref(head);
	}
	return 0;
}

static int take_frames(struct running *r, struct err *e)
{
	if (conn_fill(&r->c->conn, e) < 0)
		return -1;
	while (!r->final) {
		auto_json json_t *head = NULL;
		struct bytes blob;
		int got = conn_next(&r->c->conn, &head, &blob, e);

		if (got <= 0)
			return got;
		if (take_frame(r, head, blob, e) < 0)
			return -1;
	}
	return 0;
}

static int send_input(struct running *r, struct err *e)
{
	size_t room = r->credit < PROTO_PIECE ? r->credit : PROTO_PIECE;
	ssize_t n = read(r->call->input_fd, r->c->piece, room);
	struct err why;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* Our terminal is gone, or a viewer has hung up: that ends the input, too. */
	if (n < 0 && errno != EIO && errno != ECONNRESET) {
		err_sys(&why, errno, "cannot read the input");
		r->input_ended = true;
		return give_up(r, &why, e);
	}
	if (n <= 0) {
		r->input_ended = true;
		return send_about(r, "eof", (struct bytes){0}, e);
	}
	r->credit -= (size_t)n;
	return send_about(r, "data", (struct bytes){r->c->piece, (size_t)n}, e);
}

static int send_resize(struct running *r, struct err *e)
{
	unsigned rows, cols;

	signals_take_resize();
	tty_size(&rows, &cols);
	return conn_put(&r->c->conn,
		json_pack("{s:s, s:I, s:i, s:i}", "type", "resize", "id", (json_int_t)r->id, "rows",
			(int)rows, "cols", (int)cols),
		(struct bytes){0}, e);
}

/* Waits for one event and handles it. */
static int step(struct running *r, struct err *e)
{
	struct op op = {.cancel_fd = -1, .deadline_ns = OP_NO_DEADLINE};
	struct op part = r->call->tick ? op_within(&op, TICK) : op;
	bool want_input = r->call->stream_input && !r->input_ended && !r->cancelled && r->credit &&
			  r->c->conn.out.len < PROTO_PIECE;
	struct pollfd fds[] = {
		{.fd = r->c->conn.fd,
			.events = (short)(POLLIN | (r->c->conn.out.len ? POLLOUT : 0))},
		/* After the first signal this fd stays readable, so it is not polled again. The
		 * second signal ends us anyway. */
		{.fd = signals_seen() ? -1 : signals_fd(), .events = POLLIN},
		{.fd = r->call->tty ? signals_resize_fd() : -1, .events = POLLIN},
		{.fd = want_input ? r->call->input_fd : -1, .events = POLLIN},
		{.fd = r->call->key && !r->cancelled ? STDIN_FILENO : -1, .events = POLLIN},
	};

	if (signals_seen() != r->signals && send_cancel(r, e) < 0)
		return -1;
	if (conn_flush(&r->c->conn, e) < 0)
		return -1;
	if (op_wait_fds(&part, fds, ARRAY_LEN(fds), e) < 0) {
		if (e->kind != ERR_TIMEOUT)
			return -1;
		r->call->tick(r->call->arg);
		return 0;
	}
	if (fds[2].revents && send_resize(r, e) < 0)
		return -1;
	if (fds[3].revents && send_input(r, e) < 0)
		return -1;
	if (fds[4].revents && take_keys(r, e) < 0)
		return -1;
	if ((fds[0].revents & ~POLLOUT) && take_frames(r, e) < 0)
		return -1;
	return 0;
}

int client_call(struct client *c, const struct call *call, json_t **ret, struct err *e)
{
	auto_json json_t *final = NULL;
	json_t *result;
	struct err local;
	struct running r = {.c = c,
		.call = call,
		.id = ++c->last_id,
		.credit = c->window - call->blob.len,
		.signals = signals_seen(),
		.local = &local};

	if (send_request(&r, e) < 0)
		return -1;
	while (!r.final) {
		if (step(&r, e) < 0) {
			if (!r.failed_here)
				return -1;
			break; /* the connection broke after our own failure: report that failure */
		}
	}
	final = r.final;
	if (r.failed_here) {
		*e = local;
		return -1;
	}
	if (json_object_get(final, "error"))
		return fail_with(final, e);
	result = json_object_get(final, "result");
	if (!json_is_object(result))
		return err_set(e, ERR_UNAVAILABLE, "the daemon's answer has no result");
	if (ret)
		*ret = json_incref(result);
	return 0;
}

int client_wait_signal(struct client *c, struct err *e)
{
	struct op op = {.cancel_fd = -1, .deadline_ns = OP_NO_DEADLINE};

	for (;;) {
		struct pollfd fds[] = {{.fd = c->conn.fd, .events = POLLIN},
			{.fd = signals_fd(), .events = POLLIN}};

		if (op_wait_fds(&op, fds, ARRAY_LEN(fds), e) < 0)
			return -1;
		if (fds[1].revents)
			return 0;
		/* No call waits for the frames that have come. */
		conn_forget_input(&c->conn);
		if (conn_fill(&c->conn, e) < 0)
			return -1;
	}
}
