#include "daemon/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/removal.h"
#include "daemon/request.h"
#include "wire/frame.h"
#include "proto/proto.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/json.h"
#include "util/str.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/thread/worker.h"

#define SPARE_SECONDS 5.0

enum { READ_PIECE = 64 * 1024 };

static const struct frame_limits limits = {
	.head_min = 2, .head_max = PROTO_JSON_MAX, .body_max = PROTO_BLOB_MAX};

int session_send(
	struct session *s, const struct op *op, json_t *msg, struct bytes blob, struct err *e)
{
	auto_json json_t *owned = msg;
	auto_free char *text = NULL;

	if (!owned)
		return err_oom(e);
	if (json_to_str(owned, &text, e) < 0)
		return -1;
	if (strlen(text) > PROTO_JSON_MAX)
		return err_set(e, ERR_LIMIT, "the answer is larger than %d bytes", PROTO_JSON_MAX);
	return outbox_send(op, &s->out, (struct bytes){(uint8_t *)text, strlen(text)}, blob, e);
}

void session_request_ended(struct session *s, struct request *rq)
{
	auto_unlock struct lock *held = lock_take(&s->mu);
	uint64_t one = 1;

	for (struct request **at = &s->requests; *at; at = &(*at)->next)
		if (*at == rq) {
			*at = rq->next;
			break;
		}
	s->n_requests--;
	if (s->n_requests == 0 && write(s->idle_fd, &one, sizeof(one)) < 0)
		abort(); /* an eventfd with room: cannot fail */
}

static int greet(struct session *s, json_t *msg, struct err *e)
{
	json_int_t protocol = json_integer_value(json_object_get(msg, "protocol"));
	const char *person;
	json_t *hello =
		json_pack("{s:s, s:i, s:s, s:i, s:i}", "type", "hello", "protocol", PROTO_VERSION,
			"version", MOAT_VERSION, "pid", (int)getpid(), "window", PROTO_WINDOW);

	if (s->spare && !json_is_true(json_object_get(msg, "urgent"))) {
		json_decref(hello);
		return err_set(e, ERR_UNAVAILABLE, "too many connections");
	}
	if (session_send(s, &s->op, hello, (struct bytes){0}, e) < 0)
		return -1;
	person = json_string_value(json_object_get(msg, "person"));
	if (person)
		str_escape(person, strlen(person), s->person, sizeof(s->person));
	s->greeted = true;
	if (protocol != PROTO_VERSION)
		return err_set(e, ERR_INVALID, "the client speaks protocol %lld, this daemon %d",
			(long long)protocol, PROTO_VERSION);
	return 0;
}

/* Gives a frame to its request. The session's lock is held, so that the request cannot end
 * meanwhile. */
static int route_locked(
	struct session *s, const char *type, json_t *msg, struct bytes blob, struct err *e)
{
	json_int_t id = json_integer_value(json_object_get(msg, "id"));

	for (struct request *rq = s->requests; rq; rq = rq->next)
		if (rq->id == id)
			return request_input_locked(rq, type, msg, blob, e);
	return 0; /* the request has ended: its answer crossed this frame */
}

static int handle_frame(struct session *s, const struct frame *f, struct err *e)
{
	auto_json json_t *msg = NULL;
	struct bytes blob = {f->body, f->body_len};
	const char *type;

	if (json_parse_object((struct bytes){f->head, f->head_len}, &msg, e) < 0)
		return -1;
	type = json_string_value(json_object_get(msg, "type"));
	if (!type)
		return err_set(e, ERR_INVALID, "a frame without a type");
	if (!s->greeted)
		return strcmp(type, "hello") == 0
			       ? greet(s, msg, e)
			       : err_set(e, ERR_INVALID, "the first frame is not hello");
	if (strcmp(type, "request") == 0)
		return request_start(s, msg, blob, e);
	auto_unlock struct lock *held = lock_take(&s->mu);
	return route_locked(s, type, msg, blob, e);
}

static int handle_bytes(struct session *s, struct buf *in, struct err *e)
{
	struct frame f;
	long used;

	while ((used = frame_decode(buf_data(in), in->len, &limits, &f)) > 0) {
		if (handle_frame(s, &f, e) < 0)
			return -1;
		buf_drop(in, (size_t)used);
	}
	return used < 0 ? err_set(e, ERR_LIMIT, "a frame over the limits") : 0;
}

/* Until the client hangs up (0), breaks the protocol or the daemon ends (-1). */
static int serve(struct session *s, struct err *e)
{
	auto_buf struct buf in = {0};
	bool unsent = false;

	for (;;) {
		struct pollfd fds[] = {{.fd = s->fd, .events = POLLIN | (unsent ? POLLOUT : 0)},
			{.fd = s->out.wake, .events = POLLIN}};
		ssize_t got;
		int left;

		if (op_wait_fds(&s->op, fds, 2, e) < 0)
			return -1;
		if (fds[1].revents || (fds[0].revents & POLLOUT)) {
			left = outbox_flush(&s->out, e);
			if (left < 0)
				return -1;
			unsent = left > 0;
		}
		if (!(fds[0].revents & ~POLLOUT))
			continue;
		got = io_fill_now(&in, s->fd, READ_PIECE, e);
		if (got == 0)
			return 0;
		if (got < 0 && e->sys != EAGAIN)
			return -1;
		s->received_ns = now_ns();
		if (handle_bytes(s, &in, e) < 0)
			return -1;
	}
}

static void say_goodbye(struct session *s, const struct err *why)
{
	struct op soon = op_for_cleanup(1);
	struct err ignored;
	json_t *msg = json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "kind",
		err_kind_name(why->kind), "message", json_text(why->msg));

	if (why->kind == ERR_CANCELLED || why->kind == ERR_UNAVAILABLE)
		json_decref(msg);
	else if (session_send(s, &soon, msg, (struct bytes){0}, &ignored) == 0)
		outbox_flush(&s->out, &ignored);
}

/* Cancels the requests and waits for their end: handlers give up at once, and undo what they did in
 * bounded time. */
static void end_requests(struct session *s)
{
	struct op wait = op_for_cleanup(0);
	uint64_t count;
	struct err e;

	op_cancel(&s->op);
	for (;;) {
		{
			auto_unlock struct lock *held = lock_take(&s->mu);
			for (struct request *rq = s->requests; rq; rq = rq->next)
				op_cancel(&rq->op);
			if (s->n_requests == 0)
				return;
			if (read(s->idle_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
				return;
		}
		if (op_wait_fd(&wait, s->idle_fd, POLLIN, &e) < 0)
			return;
	}
}

static bool leased(const struct sandbox *sb, void *arg)
{
	return sb->lease == ((struct session *)arg)->lease;
}

static void session_free(struct session *s)
{
	outbox_done(&s->out);
	op_done(&s->op);
	if (s->idle_fd >= 0)
		close(s->idle_fd);
	close(s->fd);
	lock_done(&s->mu);
	free(s);
}

static void enlist(struct session *s)
{
	struct daemon *d = s->daemon;
	auto_unlock struct lock *held = lock_take(&d->mu);

	s->next = d->session_list;
	d->session_list = s;
	d->sessions++;
	d->spare_sessions += s->spare;
}

static void delist(struct session *s)
{
	struct daemon *d = s->daemon;
	auto_unlock struct lock *held = lock_take(&d->mu);

	for (struct session **at = &d->session_list; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			break;
		}
	d->sessions--;
	d->spare_sessions -= s->spare;
	d->idle_since_ns = now_ns();
}

static void session_main(void *arg)
{
	struct session *s = arg;
	struct err e;

	prctl(PR_SET_NAME, "session");
	if (serve(s, &e) < 0) {
		log_err(&s->op, LOG_DEBUG, &e, "connection of process %d ends", s->peer_pid);
		say_goodbye(s, &e);
	}
	end_requests(s);
	shutdown(s->fd, SHUT_RDWR);
	removal_run(s->daemon, NULL, leased, s, &e);
	delist(s);
	session_free(s);
}

int session_start(struct daemon *d, int fd, bool spare, struct err *e)
{
	static uint64_t last_lease; /* only the thread that accepts connections uses it */
	struct session *s = calloc(1, sizeof(*s));
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);
	char name[32];

	if (!s) {
		close(fd);
		return err_oom(e);
	}
	s->daemon = d;
	s->fd = fd;
	s->spare = spare;
	s->lease = ++last_lease;
	lock_init(&s->mu, "session.mu", LOCK_OUTER);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	s->peer_pid = (int)peer.pid;
	s->idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->op.cancel_fd = -1;
	snprintf(name, sizeof(name), "%llu", (unsigned long long)s->lease);
	if (s->idle_fd < 0) {
		err_sys(e, errno, "eventfd");
		session_free(s);
		return -1;
	}
	if (op_init(&s->op, name, spare ? SPARE_SECONDS : 0, e) < 0 ||
		outbox_init(&s->out, fd, -1, "the client", e) < 0) {
		session_free(s);
		return -1;
	}
	enlist(s);
	if (worker_run(session_main, s, e) < 0) {
		delist(s);
		session_free(s);
		return -1;
	}
	return 0;
}
