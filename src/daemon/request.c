#include "daemon/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "wire/wire.h"
#include "proto/proto.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/bell.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/str.h"
#include "util/thread/worker.h"

enum {
	THREADS_MAX = 512,                     /* of all clients */
	THREADS_KEPT = 16,                     /* besides, for urgent requests */
	INBOX_MAX = PROTO_WINDOW + 16384 * 64, /* the window, and room for many small pieces */
	CREDIT_STEP = PROTO_WINDOW / 4,        /* the client gets credit in steps of this */
};

static const struct handler handlers[] = {
	{"up", handle_up, false},
	{"standby", handle_standby, false},
	{"validate", handle_validate, false},
	{"compose", handle_compose, false},
	{"ls", handle_ls, false, true},
	{"watch", handle_watch, false},
	{"rm", handle_rm, false, true},
	{"detach", handle_detach, false, true},
	{"snapshot", handle_snapshot, false},
	{"restore", handle_restore, false},
	{"snapshots", handle_snapshots, false},
	{"snapshot.rm", handle_snapshot_rm, false},
	{"fork", handle_fork, false},
	{"exec", handle_exec, true},
	{"read", handle_read, false},
	{"write", handle_write, true},
	{"list", handle_list, false},
	{"mkdir", handle_mkdir, false},
	{"symlink", handle_symlink, false},
	{"screenshot", handle_screenshot, false},
	{"input", handle_input, false},
	{"screen", handle_screen, true},
	{"logs", handle_logs, false},
	{"net.show", handle_net_show, false},
	{"net.forward", handle_net_forward, false},
	{"net.unforward", handle_net_unforward, false},
	{"net.capture", handle_net_capture, false},
	{"image.ls", handle_image_ls, false},
	{"image.inspect", handle_image_inspect, false},
	{"image.build", handle_image_build, false},
	{"image.import", handle_image_import, false},
	{"image.pull", handle_image_pull, false},
	{"image.commit", handle_image_commit, false},
	{"image.export", handle_image_export, false},
	{"image.rm", handle_image_rm, false},
	{"template.ls", handle_template_ls, false},
	{"template.rm", handle_template_rm, false},
	{"doctor", handle_doctor, false, false, true},
	{"gc", handle_gc, false},
	{"pool", handle_pool, false},
	{"pool.images", handle_pool_images, false},
	{"info", handle_info, false, true, true},
	{"shutdown", handle_shutdown, false, true, true},
};

const struct handler *handler_find(const char *op)
{
	for (unsigned i = 0; i < ARRAY_LEN(handlers); i++)
		if (strcmp(handlers[i].op, op) == 0)
			return &handlers[i];
	return NULL;
}

static void request_free(struct request *rq)
{
	json_decref(rq->args);
	inbox_free(rq->in);
	op_done(&rq->op);
	free(rq);
}

int request_output(struct request *rq, int stream, struct bytes data, struct err *e)
{
	static const char *const names[] = {
		[WIRE_STDOUT] = "stdout", [WIRE_STDERR] = "stderr", [WIRE_BODY] = "body"};

	while (data.len) {
		struct bytes piece = {data.p, data.len < PROTO_PIECE ? data.len : PROTO_PIECE};
		json_t *msg = json_pack(
			"{s:s, s:I, s:s}", "type", "data", "id", rq->id, "stream", names[stream]);

		if (session_send(rq->session, &rq->op, msg, piece, e) < 0)
			return -1;
		data.p += piece.len;
		data.len -= piece.len;
	}
	return 0;
}

void request_touch(struct request *rq, struct sandbox *sb, enum touch what)
{
	const char *person = rq->session->person;

	if (!*person && what != TOUCH_TYPED)
		return;
	touches_add(&sb->touches, what, *person ? person : "terminal");
	bell_ring(registry_changes(rq->daemon->registry));
}

static int io_output(void *arg, int stream, struct bytes data, struct err *e)
{
	return request_output(arg, stream, data, e);
}

static void io_consumed(void *arg, size_t n)
{
	struct request *rq = arg;
	json_int_t credit;
	struct err ignored;

	rq->uncredited += n;
	if (rq->uncredited < CREDIT_STEP)
		return;
	{
		auto_unlock struct lock *held = lock_take(&rq->session->mu);
		rq->outstanding -= rq->uncredited;
	}
	credit = (json_int_t)rq->uncredited;
	rq->uncredited = 0;
	/* Sending the result will fail, too, if the connection is broken. */
	if (session_send(rq->session, &rq->op,
		    json_pack("{s:s, s:I, s:I}", "type", "credit", "id", rq->id, "bytes", credit),
		    (struct bytes){0}, &ignored) < 0)
		return;
}

struct guest_io request_io(struct request *rq)
{
	return (struct guest_io){
		.in = rq->in, .output = io_output, .consumed = io_consumed, .arg = rq};
}

/*
 * Progress is dropped if the client does not read. The thread that reports it may have what others
 * wait for: a turn, say, or the lock on an image that it builds.
 */
static void on_progress(void *arg, const char *text, uint64_t done, uint64_t total)
{
	struct request *rq = arg;
	struct op at_once = rq->op;
	json_t *msg = json_pack(
		"{s:s, s:I, s:o}", "type", "progress", "id", rq->id, "text", json_text(text));
	struct err ignored;

	if (msg && total) {
		json_object_set_new(msg, "done", json_integer((json_int_t)done));
		json_object_set_new(msg, "total", json_integer((json_int_t)total));
	}
	at_once.deadline_ns = now_ns();
	if (session_send(rq->session, &at_once, msg, (struct bytes){0}, &ignored) < 0)
		return; /* progress is not worth failing for */
}

static json_t *error_message(json_int_t id, const struct err *failure)
{
	json_t *error = json_pack("{s:s, s:o}", "kind", err_kind_name(failure->kind), "message",
		json_text(failure->msg));

	if (error && failure->sys)
		json_object_set_new(error, "errno", json_integer(failure->sys));
	return json_pack("{s:s, s:I, s:o}", "type", "error", "id", id, "error", error);
}

static void add_timing(const struct request *rq, json_t *msg)
{
	int64_t total = now_ns() - rq->received_ns;

	if (rq->received_ns && msg)
		json_object_set_new(msg, "timing",
			json_pack("{s:I, s:I}", "daemon_us",
				(json_int_t)((total - rq->guest_ns) / 1000), "guest_us",
				(json_int_t)(rq->guest_ns / 1000)));
}

/* Sends the final frame, without a deadline: a client that is slow to read gets its answer, too. */
static void answer(struct request *rq, json_t *result, const struct err *failure)
{
	const struct op *op = &rq->session->op;
	struct bytes none = {0};
	json_t *msg = failure ? error_message(rq->id, failure)
			      : json_pack("{s:s, s:I, s:o}", "type", "result", "id", rq->id,
					"result", result ? result : json_object());
	struct err e;

	add_timing(rq, msg);
	if (session_send(rq->session, op, msg, none, &e) == 0)
		return;
	/* An answer that is too large, or for which there is no memory, becomes an error. */
	if (e.kind == ERR_CANCELLED || e.kind == ERR_UNAVAILABLE ||
		session_send(rq->session, op, error_message(rq->id, &e), none, &e) < 0)
		log_err(&rq->op, LOG_DEBUG, &e, "cannot answer");
}

static bool take_slot(struct daemon *d, bool urgent)
{
	auto_unlock struct lock *held = lock_take(&d->mu);

	if (d->requests >= THREADS_MAX + (urgent ? THREADS_KEPT : 0))
		return false;
	d->requests++;
	return true;
}

static void give_slot_back(struct daemon *d)
{
	auto_unlock struct lock *held = lock_take(&d->mu);

	d->requests--;
}

/* Nobody asked for an end of the request itself if its session was cancelled: the daemon ends, or
 * the client is gone and reads no answer. */
static void explain_end(const struct request *rq, struct err *e)
{
	if (e->kind == ERR_CANCELLED && op_cancelled(&rq->session->op))
		err_set(e, ERR_UNAVAILABLE, "the daemon was stopped");
}

static void request_main(void *arg)
{
	struct request *rq = arg;
	struct session *s = rq->session;
	struct daemon *d = rq->daemon;
	json_t *result = NULL;
	struct err e = {0};

	prctl(PR_SET_NAME, rq->handler->op);
	if (rq->handler->run(rq, &result, &e) < 0) {
		explain_end(rq, &e);
		log_err(&rq->op, e.kind == ERR_INTERNAL ? LOG_ERROR : LOG_DEBUG, &e, "%s",
			rq->handler->op);
		answer(rq, NULL, &e);
	} else {
		answer(rq, result, NULL);
	}
	give_slot_back(d);
	session_request_ended(s, rq); /* from here on the session may be gone */
	request_free(rq);
}

static int parse_input(
	const char *text, const struct handler *h, enum request_input *ret, struct err *e)
{
	if (strcmp(text, "none") == 0)
		*ret = INPUT_NONE;
	else if (strcmp(text, "blob") == 0)
		*ret = INPUT_BLOB;
	else if (strcmp(text, "stream") == 0)
		*ret = INPUT_STREAM;
	else
		return err_set(e, ERR_INVALID, "input is \"none\", \"blob\" or \"stream\"");
	if (*ret != INPUT_NONE && !h->takes_input)
		return err_set(e, ERR_INVALID, "%s takes no input", h->op);
	return 0;
}

static int put_first_input(struct request *rq, struct bytes blob, struct err *e)
{
	if (rq->input == INPUT_NONE)
		return blob.len ? err_set(e, ERR_INVALID, "a blob, but no input") : 0;
	rq->outstanding = blob.len;
	if (blob.len && inbox_put(rq->in, GUEST_INPUT_DATA, 0, 0, blob, e) < 0)
		return -1;
	if (rq->input == INPUT_BLOB)
		return inbox_put(rq->in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, e);
	return 0;
}

static int spawn_thread(struct request *rq, struct err *e)
{
	if (!take_slot(rq->daemon, rq->handler->urgent))
		return err_set(e, ERR_BUSY, "the daemon is running %d operations", THREADS_MAX);
	if (worker_run(request_main, rq, e) < 0) {
		give_slot_back(rq->daemon);
		return -1;
	}
	return 0;
}

static int request_new(
	struct session *s, json_int_t id, double timeout, struct request **ret, struct err *e)
{
	struct request *rq = calloc(1, sizeof(*rq));
	char name[32];

	if (!rq)
		return err_oom(e);
	rq->session = s;
	rq->daemon = s->daemon;
	rq->id = id;
	snprintf(name, sizeof(name), "%llu.%lld", (unsigned long long)s->lease, (long long)id);
	if (op_init(&rq->op, name, timeout, e) < 0) {
		free(rq);
		return -1;
	}
	rq->op.on_progress = on_progress;
	rq->op.progress_arg = rq;
	if (inbox_new(INBOX_MAX, &rq->in, e) < 0) {
		request_free(rq);
		return -1;
	}
	*ret = rq;
	return 0;
}

/* Fills in the request and starts it. A failure refuses this request; the connection goes on. */
static int fill_request(
	struct request *rq, const char *op, const char *input, struct bytes blob, struct err *e)
{
	char safe[64];

	rq->handler = handler_find(op);
	if (!rq->handler) {
		str_escape(op, strlen(op), safe, sizeof(safe));
		return err_set(e, ERR_INVALID, "no operation \"%s\"", safe);
	}
	if (rq->session->spare && rq->handler->run != handle_shutdown)
		return err_set(
			e, ERR_BUSY, "too many connections: this one can stop the daemon only");
	if (rq->daemon->config_wrong.kind && !rq->handler->any_config) {
		*e = rq->daemon->config_wrong;
		return -1;
	}
	if (!json_is_object(rq->args))
		return err_set(e, ERR_INVALID, "args is not an object");
	if (parse_input(input, rq->handler, &rq->input, e) < 0 || put_first_input(rq, blob, e) < 0)
		return -1;
	return spawn_thread(rq, e);
}

static bool id_in_use(struct session *s, json_int_t id)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	for (struct request *rq = s->requests; rq; rq = rq->next)
		if (rq->id == id)
			return true;
	return s->n_requests >= PROTO_REQUESTS_MAX;
}

int request_start(struct session *s, json_t *msg, struct bytes blob, struct err *e)
{
	const char *type, *op, *input = "none";
	struct request *rq;
	json_t *args = NULL;
	double timeout = 0;
	json_int_t id;
	int timing = 0;

	if (json_get(msg, "request", e, "{s:s, s:I, s:s, s?o, s?s, s?F, s?b}", "type", &type, "id",
		    &id, "op", &op, "args", &args, "input", &input, "timeout", &timeout, "timing",
		    &timing) < 0)
		return -1;
	if (id < 1 || id_in_use(s, id))
		return err_set(e, ERR_INVALID, "request id %lld is in use, or too many are open",
			(long long)id);
	/* Files or memory ran out. The connection stays: other requests of the client go on. */
	if (request_new(s, id, timeout, &rq, e) < 0)
		return session_send(s, &s->op, error_message(id, e), (struct bytes){0}, e);
	rq->received_ns = timing ? s->received_ns : 0;
	{
		auto_unlock struct lock *held = lock_take(&s->mu);
		rq->next = s->requests;
		s->requests = rq;
		s->n_requests++;
	}
	/* From now on args are the request's alone: JSON values are not for two threads. */
	rq->args = args ? json_incref(args) : json_object();
	json_object_del(msg, "args");
	if (fill_request(rq, op, input, blob, e) < 0) {
		answer(rq, NULL, e);
		session_request_ended(s, rq);
		request_free(rq);
	}
	return 0;
}

static int put_data_locked(struct request *rq, struct bytes blob, struct err *e)
{
	rq->outstanding += blob.len;
	if (rq->outstanding > PROTO_WINDOW)
		return err_set(
			e, ERR_LIMIT, "more than %d bytes of input before credit", PROTO_WINDOW);
	return inbox_put(rq->in, GUEST_INPUT_DATA, 0, 0, blob, e);
}

int request_input_locked(
	struct request *rq, const char *type, json_t *msg, struct bytes blob, struct err *e)
{
	json_int_t a = json_integer_value(json_object_get(msg, "rows"));
	json_int_t b = json_integer_value(json_object_get(msg, "cols"));
	json_int_t sig = json_integer_value(json_object_get(msg, "signal"));

	if (strcmp(type, "cancel") == 0) {
		op_cancel(&rq->op);
		return 0;
	}
	if (strcmp(type, "data") == 0 && rq->input == INPUT_STREAM)
		return blob.len ? put_data_locked(rq, blob, e) : 0;
	if (strcmp(type, "eof") == 0 && rq->input == INPUT_STREAM)
		return inbox_put(rq->in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, e);
	if (strcmp(type, "resize") == 0 && a > 0 && a < 65536 && b > 0 && b < 65536)
		return inbox_put(
			rq->in, GUEST_INPUT_RESIZE, (uint64_t)a, (uint64_t)b, (struct bytes){0}, e);
	if (strcmp(type, "signal") == 0 && sig > 0 && sig < 65)
		return inbox_put(
			rq->in, GUEST_INPUT_SIGNAL, (uint64_t)sig, 0, (struct bytes){0}, e);
	return err_set(e, ERR_INVALID, "a %s frame that does not fit its request", type);
}
