#include "guestlink/agent/qga.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "util/auto.h"
#include "util/system/io.h"

enum {
	READ_SIZE = 64 * 1024,
	/* The answer to an exec that was given up may still come: two streams of 16 MiB in
	 * base64. */
	DISCARD_MAX = 64 * 1024 * 1024,
	RESYNC_S = 2, /* try again after that: an agent that was just starting may have lost the
			 first attempt */
	RESYNC_MAX_S = 10,
	LOOKS = 3, /* how often we look for an answer within the patience, before we give up */
};

struct qga {
	const struct qga_transport *transport; /* NULL: the agent is at the socket fd */
	void *transport_arg;
	int fd;
	bool in_step;       /* no answer to an earlier command can still come */
	double patience;    /* seconds that the agent may be silent; 0: no limit */
	_Atomic bool still; /* the VM stands still, so it may be silent */
	struct buf in;
	size_t searched; /* bytes of `in` that have no newline */
};

int qga_open(int fd, struct qga **ret, struct err *e)
{
	auto_free struct qga *q = calloc(1, sizeof(*q));

	if (!q)
		return err_oom(e);
	q->fd = fd;
	if (fd_set_nonblock(fd, e) < 0)
		return -1;
	*ret = take_ptr(&q);
	return 0;
}

int qga_open_transport(
	const struct qga_transport *transport, void *arg, struct qga **ret, struct err *e)
{
	struct qga *q = calloc(1, sizeof(*q));

	if (!q)
		return err_oom(e);
	q->transport = transport;
	q->transport_arg = arg;
	q->fd = -1;
	*ret = q;
	return 0;
}

const struct qga_transport *qga_transport_of(const struct qga *q, void **ret_arg)
{
	*ret_arg = q->transport_arg;
	return q->transport;
}

size_t qga_output_max(const struct qga *q)
{
	return q->transport ? q->transport->output_max : QGA_OUTPUT_MAX;
}

bool qga_takes_input(const struct qga *q, struct bytes input)
{
	return !q->transport || !input.len ||
	       (input.len <= q->transport->input_max && !memchr(input.p, 0, input.len));
}

size_t qga_write_max(const struct qga *q)
{
	return q->transport ? q->transport->write_max : SIZE_MAX;
}

void qga_close(struct qga *q)
{
	if (!q)
		return;
	buf_free(&q->in);
	free(q);
}

void qga_set_patience(struct qga *q, double seconds)
{
	q->patience = seconds;
}

void qga_stand_still(struct qga *q, bool still)
{
	q->still = still;
}

static int fail_closed(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "the connection to the guest agent was closed");
}

/* The agent can fall silent without a sign: its QEMU may be frozen. */
static int fail_silent(const struct qga *q, struct err *e)
{
	return err_set(
		e, ERR_UNAVAILABLE, "the guest agent has said nothing for %g seconds", q->patience);
}

/* Waits for the agent, as long as it may be silent. */
static int wait_for_agent(struct qga *q, const struct op *op, short events, struct err *e)
{
	for (int silent = 0; silent < LOOKS; silent = q->still ? 0 : silent + 1) {
		struct op look = op_within(op, q->patience / LOOKS);

		if (op_wait_fd(&look, q->fd, events, e) == 0)
			return 0;
		if (e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
			return -1;
	}
	return fail_silent(q, e);
}

static int send_all(struct qga *q, const struct op *op, struct bytes data, struct err *e)
{
	while (data.len) {
		ssize_t sent = send(q->fd, data.p, data.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
			return fail_closed(e);
		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, errno, "send to the guest agent");
		if (sent < 0) {
			if (wait_for_agent(q, op, POLLOUT, e) < 0)
				return -1;
			continue;
		}
		data.p += sent;
		data.len -= (size_t)sent;
	}
	return 0;
}

static int receive(struct qga *q, const struct op *op, struct err *e)
{
	ssize_t got = io_fill(op, &q->in, q->fd, READ_SIZE, e);

	if (got == 0)
		return fail_closed(e);
	return got < 0 ? -1 : 0;
}

static void forget_input(struct qga *q)
{
	buf_free(&q->in);
	q->searched = 0;
}

static int send_sync(struct qga *q, const struct op *op, uint64_t *ret_id, struct err *e)
{
	uint32_t id;
	char text[128];
	int n;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return err_sys(e, errno, "getrandom");
	/* The first byte makes the agent forget an incomplete command. */
	n = snprintf(text, sizeof(text),
		"\xff{\"execute\":\"guest-sync-delimited\",\"arguments\":{\"id\":%u}}\n", id);
	if (send_all(q, op, (struct bytes){(const uint8_t *)text, (size_t)n}, e) < 0)
		return -1;
	*ret_id = id;
	return 0;
}

/* Returns 1 if synchronised, 0 if `part` ended without an answer. */
static int await_sync(struct qga *q, const struct op *part, uint64_t id, struct err *e)
{
	size_t discarded = 0;

	for (;;) {
		size_t drop = 0, end = qga_find_sync(buf_bytes(&q->in), id, &drop);

		buf_drop(&q->in, end ? end : drop);
		if (end)
			return 1;
		discarded += drop;
		if (discarded > DISCARD_MAX)
			return err_set(e, ERR_UNAVAILABLE,
				"the guest agent sent %zu bytes and no answer", discarded);
		if (receive(q, part, e) < 0)
			return e->kind == ERR_TIMEOUT ? 0 : -1;
	}
}

int qga_sync(struct qga *q, const struct op *op, struct err *e)
{
	double patience = RESYNC_S;

	q->in_step = false;
	forget_input(q);
	for (;; patience = patience * 2 < RESYNC_MAX_S ? patience * 2 : RESYNC_MAX_S) {
		struct op part = op_within(op, patience);
		uint64_t id = 0;
		int got;

		if (send_sync(q, op, &id, e) < 0)
			return -1;
		got = await_sync(q, &part, id, e);
		if (got < 0)
			return -1;
		if (got > 0)
			break;
		/* Accept only the answer to the last attempt; answers to earlier ones come before
		 * it. */
		if (op_check(op, e) < 0)
			return err_wrap(e, "waiting for the guest agent");
	}
	q->in_step = true;
	q->searched = 0;
	return 0;
}

/* Waits for a line. It stays in q->in: drop it with its newline. */
static int await_line(
	struct qga *q, const struct op *op, size_t max, struct bytes *ret_line, struct err *e)
{
	for (;;) {
		uint8_t *start = buf_data(&q->in), *newline = NULL;

		if (q->in.len > q->searched)
			newline = memchr(start + q->searched, '\n', q->in.len - q->searched);
		if (newline && (size_t)(newline - start) <= max) {
			*ret_line = (struct bytes){start, (size_t)(newline - start)};
			return 0;
		}
		if (newline || q->in.len > max)
			return err_set(e, ERR_UNAVAILABLE,
				"the guest agent sent an answer of more than %zu bytes", max);
		q->searched = q->in.len;
		if (wait_for_agent(q, op, POLLIN, e) < 0 || receive(q, op, e) < 0)
			return -1;
	}
}

static int send_command(
	struct qga *q, const struct op *op, const struct qga_call *call, struct err *e)
{
	auto_json json_t *request = NULL;
	auto_free char *text = NULL;
	size_t n;

	if (json_make(&request, e, "{s:s}", "execute", call->command) < 0)
		return -1;
	if (call->args && json_object_set(request, "arguments", call->args) < 0)
		return err_oom(e);
	if (json_to_str(request, &text, e) < 0)
		return -1;
	n = strlen(text);
	text[n] = '\n'; /* replaces the NUL, which saves copying megabytes */
	return send_all(q, op, (struct bytes){(const uint8_t *)text, n + 1}, e);
}

static int exchange(struct qga *q, const struct op *op, const struct qga_call *call, json_t **ret,
	struct err *e)
{
	struct bytes line;
	int rc;

	if (send_command(q, op, call, e) < 0 ||
		await_line(q, op, call->reply_max ? call->reply_max : QGA_REPLY_MAX, &line, e) < 0)
		return -1;
	rc = qga_parse_reply(line, ret, e);
	buf_drop(&q->in, line.len + 1);
	q->searched = 0;
	if (rc < 0 && e->kind == ERR_UNAVAILABLE)
		return -1;
	/* More bytes than one answer: the next command must synchronise first. */
	q->in_step = q->in.len == 0;
	return rc;
}

/* Synchronises with an agent that has answered before, and so is not booting. */
static int sync_again(struct qga *q, const struct op *op, struct err *e)
{
	for (;;) {
		struct op part = op_within(op, q->patience);

		if (qga_sync(q, &part, e) == 0)
			return 0;
		if (e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
			return -1;
		if (!q->still)
			return fail_silent(q, e);
	}
}

int qga_call(struct qga *q, const struct op *op, const struct qga_call *call, json_t **ret,
	struct err *e)
{
	if (op_check(op, e) < 0)
		return -1;
	if (!q->in_step && sync_again(q, op, e) < 0)
		return -1;
	q->in_step = false;
	if (exchange(q, op, call, ret, e) < 0)
		return err_wrap(e, "%s", call->command);
	return 0;
}
