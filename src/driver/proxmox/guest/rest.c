#include "driver/proxmox/guest/rest.h"

#include <errno.h>
#include <string.h>

#include "driver/proxmox/guest/bulk.h"
#include "guestlink/line/wire-ops.h"
#include "util/str.h"

enum {
	REQUEST_ID = 1,
	READ_CHUNK = 16 * 1024 * 1024 - 64 * 1024, /* its frames fill four files of the spool */
	WRITE_CHUNK = 4 * 1024 * 1024,
};

static int add_frame(struct buf *b, struct wire_msg msg, struct bytes body, struct err *e)
{
	uint8_t head[FRAME_HEADER + WIRE_HEAD_MAX];
	size_t n;

	msg.id = REQUEST_ID;
	n = wire_encode(&msg, head + FRAME_HEADER);
	frame_encode_header(head, (uint32_t)n, (uint32_t)body.len);
	if (buf_add(b, head, FRAME_HEADER + n, e) < 0)
		return -1;
	return body.len ? buf_add(b, body.p, body.len, e) : 0;
}

static int add_data(struct buf *b, struct bytes input, struct err *e)
{
	while (input.len) {
		size_t n = input.len < WIRE_PIECE ? input.len : WIRE_PIECE;

		if (add_frame(b, (struct wire_msg){.type = WIRE_DATA, .stream = WIRE_BODY},
			    (struct bytes){input.p, n}, e) < 0)
			return -1;
		input.p += n;
		input.len -= n;
	}
	return 0;
}

static int add_end(struct buf *b, struct err *e)
{
	return add_frame(b, (struct wire_msg){.type = WIRE_EOF}, (struct bytes){0}, e);
}

static int fail_protocol(struct err *e, const char *what)
{
	return err_set(e, ERR_UNAVAILABLE, "the guest runner broke the protocol: %s", what);
}

/* Reads one frame; 1: it was the end. */
static int read_frame(const struct frame *f, const struct pve_answer_rules *rules,
	int (*sink)(void *arg, int stream, struct bytes data, struct err *e), void *arg,
	struct pve_answer *reply, struct err *e)
{
	struct wire_msg msg;

	if (!wire_decode(f->head, f->head_len, &msg) || msg.id != REQUEST_ID)
		return fail_protocol(e, "a message that cannot be read");
	if (msg.type == rules->end) {
		reply->end = msg;
		str_escape((const char *)f->body, f->body_len, reply->text, sizeof(reply->text));
		return 1;
	}
	if (msg.type != WIRE_DATA || msg.stream > WIRE_BODY || !(rules->streams & 1u << msg.stream))
		return fail_protocol(e, "a message that does not fit the operation");
	reply->got[msg.stream] += f->body_len;
	if (rules->max && reply->got[msg.stream] > rules->max)
		return fail_protocol(e, "more data than it was asked for");
	if (!f->body_len)
		return 0;
	return sink(arg, msg.stream, (struct bytes){f->body, f->body_len}, e);
}

int pve_read_answer(struct bytes frames, const struct pve_answer_rules *rules,
	int (*sink)(void *arg, int stream, struct bytes data, struct err *e), void *arg,
	struct pve_answer *ret, struct err *e)
{
	struct pve_answer reply = {0};

	while (frames.len) {
		struct frame f;
		long n = frame_decode(frames.p, frames.len, &wire_to_host, &f);
		int rc;

		if (n <= 0)
			return fail_protocol(e, "a message that is cut off");
		rc = read_frame(&f, rules, sink, arg, &reply, e);
		if (rc < 0)
			return -1;
		frames.p += n;
		frames.len -= (size_t)n;
		if (rc) {
			*ret = reply;
			return 0;
		}
	}
	return err_set(e, ERR_UNAVAILABLE, "the guest runner ended before the command did");
}

/* One operation: where it goes, its input, and what its answer may be. */
struct asking {
	struct pve_runner *runner;
	const struct op *op;
	double timeout;
	struct pve_answer_rules rules;
	struct pve_input *in; /* NULL: none */
	const struct guest_io *io;
	bool split; /* input may be given in several requests */
	int (*sink)(void *arg, int stream, struct bytes data, struct err *e);
	void *arg;
};

/* Sends the request with input that is too large for memory: it goes onto discs as it comes, all
 * of it or, if it may be split, one disc full. */
static int ask_on_disc(
	const struct asking *a, struct buf *request, struct buf *answer, struct err *e)
{
	auto_bulk struct pve_bulk bulk = {.content = {.fd = -1}};
	struct pve_input *in = a->in;
	uint64_t size = 0, room = pve_disc_room(in->disc) - 4 * PVE_DISC_FROM;

	if (pve_bulk_begin(&bulk, a->runner, in->disc, e) < 0)
		return -1;
	for (;;) {
		int got;

		size += in->ahead.len;
		if (add_data(request, buf_bytes(&in->ahead), e) < 0)
			return -1;
		buf_free(&in->ahead);
		if (in->ended || (a->split && size >= room))
			break;
		if (pve_bulk_add(&bulk, a->op, buf_bytes(request), e) < 0)
			return -1;
		buf_drop(request, request->len);
		got = guest_collect(a->op, a->io, PVE_DISC_FROM, &in->ahead, e);
		if (got < 0)
			return -1;
		in->ended = got;
	}
	if (add_end(request, e) < 0 || pve_bulk_add(&bulk, a->op, buf_bytes(request), e) < 0)
		return -1;
	return pve_bulk_do(&bulk, a->op, a->timeout, answer, e);
}

/* Collects input until there are max bytes of it. */
static int collect(const struct asking *a, size_t max, struct err *e)
{
	struct pve_input *in = a->in;
	int got;

	if (in->ended || in->ahead.len >= max)
		return 0;
	got = guest_collect(a->op, a->io, max, &in->ahead, e);
	if (got < 0)
		return -1;
	in->ended = got;
	return 0;
}

/* Collects the input of a request; 1: there is more than agent calls can carry, so it needs a
 * disc. */
static int collect_input(const struct asking *a, struct err *e)
{
	struct pve_input *in = a->in;

	if (collect(a, PVE_DISC_FROM, e) < 0)
		return -1;
	if (in->ended || pve_disc_room(in->disc))
		return !in->ended;
	if (collect(a, a->split ? WRITE_CHUNK : PVE_PIECES_MAX + 1, e) < 0)
		return -1;
	if (!a->split && (!in->ended || in->ahead.len > PVE_PIECES_MAX))
		return guest_too_large(e,
			"more than %d bytes of input do not pass through the guest agent, and the "
			"VM has no drive for a disc; write them to a file first",
			PVE_PIECES_MAX);
	return 0;
}

static int send_request(
	const struct asking *a, struct buf *request, struct buf *answer, struct err *e)
{
	int large = a->in ? collect_input(a, e) : 0;

	if (large < 0)
		return -1;
	if (large)
		return ask_on_disc(a, request, answer, e);
	if (a->in) {
		if (add_data(request, buf_bytes(&a->in->ahead), e) < 0 || add_end(request, e) < 0)
			return -1;
		buf_free(&a->in->ahead);
	}
	return pve_runner_do(a->runner, a->op, buf_bytes(request), a->timeout, answer, e);
}

static int ask(const struct asking *a, struct wire_msg msg, struct bytes body,
	struct pve_answer *ret, struct err *e)
{
	auto_buf struct buf request = {0}, answer = {0};

	if (add_frame(&request, msg, body, e) < 0 || send_request(a, &request, &answer, e) < 0)
		return -1;
	buf_free(&request);
	return pve_read_answer(buf_bytes(&answer), &a->rules, a->sink, a->arg, ret, e);
}

int pve_rest_exec(struct pve_runner *r, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct pve_input *in, struct guest_exit *ret, struct err *e)
{
	struct asking a = {
		.runner = r,
		.op = op,
		.timeout = req->timeout,
		.in = req->input ? in : NULL,
		.io = io,
		.rules = {.end = WIRE_EXIT,
			.streams = 1 << WIRE_STDOUT | 1 << WIRE_STDERR,
			.max = req->capture_max},
		.sink = io->output,
		.arg = io->arg,
	};
	auto_buf struct buf strings = {0};
	struct pve_answer reply;
	struct wire_msg msg;

	if (req->tty)
		return err_set(e, ERR_UNSUPPORTED,
			"a terminal needs the VM's second serial port, and that cannot be reached");
	if (wire_ask_exec(req, &msg, &strings, e) < 0 ||
		ask(&a, msg, buf_bytes(&strings), &reply, e) < 0)
		return -1;
	if (!req->capture_max && (reply.end.size > reply.got[WIRE_STDOUT] ||
					 reply.end.size2 > reply.got[WIRE_STDERR]))
		return err_set(e, ERR_LIMIT,
			"the command wrote more than passes through the guest agent; it was ended "
			"after %llu bytes",
			(unsigned long long)(reply.got[WIRE_STDOUT] + reply.got[WIRE_STDERR]));
	wire_told_exit(&reply.end, reply.text, ret);
	return 0;
}

/* A request about a path, up to its successful DONE. */
static int ask_path(const struct asking *a, struct wire_msg msg, const struct guest_path *at,
	const char *target, struct pve_answer *ret, struct err *e)
{
	auto_buf struct buf strings = {0};

	if (wire_ask_path(at, target, &strings, e) < 0 ||
		ask(a, msg, buf_bytes(&strings), ret, e) < 0)
		return -1;
	return ret->end.code ? guest_fail(e, ret->end.code, at->path, ret->text) : 0;
}

static int no_sink(void *arg, int stream, struct bytes data, struct err *e)
{
	(void)arg, (void)stream, (void)data;
	return fail_protocol(e, "data that nobody asked for");
}

/* Reads in chunks, so that no file is copied as a whole into the guest's spool. */
int pve_rest_read(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	uint64_t max, const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct asking a = {
		.runner = r,
		.op = op,
		.rules = {.end = WIRE_DONE, .streams = 1 << WIRE_BODY, .max = READ_CHUNK},
		.sink = io->output,
		.arg = io->arg,
	};
	uint64_t size = 0;

	for (;;) {
		struct wire_msg msg = {.type = WIRE_READ, .size = size, .size2 = READ_CHUNK};
		struct pve_answer reply;

		if (!size)
			msg.max =
				max; /* for the whole file; in later chunks only we know the sum */
		else if (max && max - size < READ_CHUNK)
			msg.size2 = max - size + 1;
		if (ask_path(&a, msg, at, NULL, &reply, e) < 0)
			return -1;
		size += reply.got[WIRE_BODY];
		if (max && size > max)
			return guest_fail(e, EFBIG, at->path, "");
		if (reply.got[WIRE_BODY] < msg.size2) {
			*ret = (struct guest_stat){.size = size, .mode = reply.end.mode};
			return 0;
		}
	}
}

int pve_rest_write(struct pve_runner *r, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct pve_input *in, struct guest_stat *ret, struct err *e)
{
	struct asking a = {.runner = r,
		.op = op,
		.rules = {.end = WIRE_DONE},
		.sink = no_sink,
		.in = in,
		.io = io,
		.split = true};
	struct wire_msg msg = {.type = WIRE_WRITE, .mode = req->mode};
	uint64_t size = 0;
	struct pve_answer reply;

	msg.flags =
		(req->append ? WIRE_WRITE_APPEND : 0u) | (req->parents ? WIRE_WRITE_PARENTS : 0u);
	do {
		if (ask_path(&a, msg, &req->at, NULL, &reply, e) < 0)
			return -1;
		size += reply.end.size;
		msg.flags |= WIRE_WRITE_APPEND;
	} while (!in->ended);
	*ret = (struct guest_stat){.size = size, .mode = reply.end.mode};
	return 0;
}

static int list_sink(void *arg, int stream, struct bytes data, struct err *e)
{
	int rc = wire_told_entries(arg, data, e);

	(void)stream;
	return rc <= 0 ? rc : fail_protocol(e, "a directory entry over the limits");
}

int pve_rest_list(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct wire_lister lister = {.each = each, .arg = arg};
	struct asking a = {
		.runner = r,
		.op = op,
		.rules = {.end = WIRE_DONE, .streams = 1 << WIRE_BODY},
		.sink = list_sink,
		.arg = &lister,
	};
	struct pve_answer reply;
	int rc = ask_path(&a, (struct wire_msg){.type = WIRE_LIST}, at, NULL, &reply, e);

	if (rc == 0 && lister.rest.len)
		rc = err_set(e, ERR_UNAVAILABLE, "the guest's list of files was cut short");
	buf_free(&lister.rest);
	return rc;
}

int pve_rest_mkdir(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e)
{
	struct asking a = {.runner = r, .op = op, .rules = {.end = WIRE_DONE}, .sink = no_sink};
	struct wire_msg msg = {.type = WIRE_MKDIR, .mode = mode};
	struct pve_answer reply;

	return ask_path(&a, msg, at, NULL, &reply, e);
}

int pve_rest_symlink(struct pve_runner *r, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	struct asking a = {.runner = r, .op = op, .rules = {.end = WIRE_DONE}, .sink = no_sink};
	struct pve_answer reply;

	return ask_path(&a, (struct wire_msg){.type = WIRE_SYMLINK}, at, target, &reply, e);
}
