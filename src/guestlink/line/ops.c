/*
 * Every operation is the same conversation. We send a request; data goes both ways, within the
 * windows; the guest sends an end. struct talk has what differs between operations.
 */
#include "guestlink/line/ops.h"

#include <errno.h>
#include <string.h>

#include "guestlink/line/channel.h"
#include "guestlink/line/identity.h"
#include "guestlink/line/wire-ops.h"
#include "util/auto.h"
#include "util/str.h"

enum {
	CANCEL_S = 5,   /* for the guest to kill a tree and say so */
	OVERDUE_S = 30, /* after a command's own timeout, while the guest sends nothing */
	LATEST_S = 300, /* after a command's own timeout, even while output still comes */
};

struct talk {
	const struct op *op;
	struct channel *channel;
	struct inbox *in; /* the client's messages; NULL: there are no more */
	bool input;       /* DATA and EOF among them are for the guest */
	bool eof;
	struct message held; /* DATA that waits for credit */
	size_t held_at;
	const struct guest_io *io; /* its consumed() is told of input */
	int (*sink)(void *arg, int stream, struct bytes data, struct err *e);
	void *arg;
	uint64_t max; /* of data from the guest, each stream; 0: no limit */
	uint64_t got[WIRE_BODY + 1];
	double timeout; /* of the command, which the guest sees to; 0: none */
	int64_t start_ns;
	int64_t overdue_ns;
	int64_t held_up_ns;      /* how long sink() has kept us waiting */
	int64_t stood_ns;        /* how long the VM had stood still when overdue_ns was set */
	int64_t stood_before_ns; /* ... and at the start */
};

/* Hands the guest's data to the sink, and gives the guest credit for it. */
static int deliver(struct talk *t, struct channel_news *news, struct err *e)
{
	for (int stream = WIRE_STDOUT; stream <= WIRE_BODY; stream++) {
		struct bytes data = buf_bytes(&news->data[stream]);

		if (!data.len)
			continue;
		t->got[stream] += data.len;
		if (t->max && t->got[stream] > t->max)
			return channel_blame(t->channel, "more data than it was asked for", e);
		if (t->sink(t->arg, stream, data, e) < 0)
			return -1;
		if (!news->ended && channel_consumed(t->op, t->channel, data.len, e) < 0)
			return -1;
	}
	return 0;
}

/* Sends as much of the held message as the guest has room for. */
static int send_held(struct talk *t, struct err *e)
{
	size_t left = t->held.data.len - t->held_at, sent = 0;
	size_t room = left ? channel_room(t->channel) : 0;

	while (left && room) {
		struct wire_msg msg = {.type = WIRE_DATA, .stream = WIRE_BODY};
		size_t n = left < room ? left : room;

		if (n > WIRE_PIECE)
			n = WIRE_PIECE;
		struct bytes piece = {buf_data(&t->held.data) + t->held_at, n};
		if (channel_send(t->op, t->channel, msg, piece, e) < 0)
			return -1;
		t->held_at += n;
		left -= n;
		room -= n;
		sent += n;
	}
	if (!left) {
		buf_free(&t->held.data);
		t->held_at = 0;
	}
	if (sent && t->io->consumed)
		t->io->consumed(t->io->arg, sent);
	return 0;
}

static int take_message(struct talk *t, struct message *message, struct err *e)
{
	struct wire_msg msg = {0};

	switch (message->type) {
	case GUEST_INPUT_DATA:
		if (t->input && !t->eof) {
			t->held = *message;
			return send_held(t, e);
		}
		if (t->io->consumed)
			t->io->consumed(t->io->arg, message->data.len);
		buf_free(&message->data);
		return 0;
	case GUEST_INPUT_EOF:
		if (!t->input || t->eof)
			return 0;
		t->eof = true;
		msg.type = WIRE_EOF;
		break;
	case GUEST_INPUT_SIGNAL:
		msg.type = WIRE_SIGNAL;
		msg.code = (uint32_t)message->a;
		break;
	case GUEST_INPUT_RESIZE:
		msg.type = WIRE_RESIZE;
		msg.rows = (uint16_t)message->a;
		msg.cols = (uint16_t)message->b;
		break;
	default:
		buf_free(&message->data);
		return err_set(e, ERR_INTERNAL, "message of type %d", message->type);
	}
	buf_free(&message->data);
	return channel_send(t->op, t->channel, msg, (struct bytes){0}, e);
}

/* The client's messages are taken only while the guest has room: a slow guest slows its client. */
static int feed(struct talk *t, struct err *e)
{
	if (send_held(t, e) < 0)
		return -1;
	while (t->in && !t->held.data.len) {
		struct message message;
		int got = inbox_take(t->in, &message, e);

		if (got < 0 && t->input && !t->eof)
			return -1;
		if (got < 0)
			t->in = NULL;
		if (got <= 0)
			break;
		if (take_message(t, &message, e) < 0)
			return -1;
	}
	return 0;
}

static int overdue(const struct talk *t, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE,
		"the guest has not ended the command within its timeout of %g s", t->timeout);
}

static int wait_for_news(struct talk *t, struct err *e)
{
	bool take = t->in && !t->held.data.len;
	struct pollfd fds[] = {
		{.fd = channel_fd(t->channel), .events = POLLIN},
		{.fd = take ? inbox_fd(t->in) : -1, .events = POLLIN},
	};
	struct op op = *t->op;

	if (t->overdue_ns < op.deadline_ns)
		op.deadline_ns = t->overdue_ns;
	if (op_wait_fds(&op, fds, take ? 2 : 1, e) == 0)
		return 0;
	if (e->kind != ERR_TIMEOUT || op.deadline_ns == t->op->deadline_ns)
		return -1;
	return channel_stood_ns(t->channel) > t->stood_ns ? 0 : overdue(t, e);
}

/* Output has come, or the VM stood still, so the command may take longer; ERR_UNAVAILABLE: it has
 * taken too long. The guest's clock stands still with the VM. */
static int put_off_overdue(struct talk *t, struct err *e)
{
	const int64_t second = 1000000000;
	int64_t now = now_ns(), due, latest;

	t->overdue_ns = OP_NO_DEADLINE;
	if (!(t->timeout > 0) || t->timeout > 1e9)
		return 0;
	t->stood_ns = channel_stood_ns(t->channel);
	due = t->start_ns + t->held_up_ns + (t->stood_ns - t->stood_before_ns) +
	      (int64_t)(t->timeout * 1e9);
	latest = due + LATEST_S * second;
	t->overdue_ns = (due > now ? due : now) + OVERDUE_S * second;
	if (t->overdue_ns > latest)
		t->overdue_ns = latest;
	return now < latest ? 0 : overdue(t, e);
}

static int converse(struct talk *t, struct channel_end *ret, struct err *e)
{
	t->start_ns = now_ns();
	t->stood_before_ns = channel_stood_ns(t->channel);
	for (;;) {
		auto_channel_news struct channel_news news = {0};

		int64_t before;

		if (channel_take(t->channel, &news, e) < 0)
			return -1;
		before = now_ns();
		if (deliver(t, &news, e) < 0)
			return -1;
		t->held_up_ns += now_ns() - before;
		if (news.ended) {
			*ret = news.end;
			return 0;
		}
		if (put_off_overdue(t, e) < 0 || feed(t, e) < 0 || wait_for_news(t, e) < 0)
			return -1;
	}
}

/* Cancels the operation and waits for its end: all that the command started is dead then. */
static void abandon(struct talk *t)
{
	struct op op = op_for_cleanup(CANCEL_S);
	struct wire_msg msg = {.type = WIRE_CANCEL};
	struct err e;
	bool told = false;

	for (;;) {
		auto_channel_news struct channel_news news = {0};
		size_t n = 0;

		if (channel_take(t->channel, &news, &e) < 0 || news.ended)
			return;
		if (!told && channel_send(&op, t->channel, msg, (struct bytes){0}, &e) < 0)
			return;
		told = true;
		for (size_t i = 0; i < ARRAY_LEN(news.data); i++)
			n += news.data[i].len;
		if (channel_consumed(&op, t->channel, n, &e) < 0 ||
			op_wait_fd(&op, channel_fd(t->channel), POLLIN, &e) < 0)
			return;
	}
}

/* Runs an operation from its request to its end. */
static int talk(struct guest *g, struct talk *t, const struct channel_rules *rules,
	struct wire_msg request, struct bytes strings, struct channel_end *ret, struct err *e)
{
	auto_channel struct channel *channel = NULL;
	int rc;

	if (op_check(t->op, e) < 0 || channel_open(g, rules, &channel, e) < 0)
		return -1;
	t->channel = channel;
	if (channel_send(t->op, channel, request, strings, e) < 0)
		return -1;
	rc = converse(t, ret, e);
	if (rc < 0)
		abandon(t);
	buf_free(&t->held.data);
	return rc;
}

/* Fetches output that was so much that the runner left it in files in the guest. */
static int take_spilled(
	struct guest *g, const struct talk *t, const struct channel_end *end, struct err *e)
{
	const struct line_spill *spill = line_spill_of(g);

	if (end->msg.how >= WIRE_NO_USER || !end->text[0] || !spill)
		return 0;
	return spill->fetch(spill->arg, t->op, end->text, t->max, t->io, e);
}

static int op_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	const struct channel_rules rules = {
		.end = WIRE_EXIT,
		.streams = 1 << WIRE_STDOUT | 1 << WIRE_STDERR,
		.input = req->input,
	};
	struct wire_msg msg;
	struct talk t = {
		.op = op,
		.in = io->in,
		.input = req->input,
		.io = io,
		.sink = io->output,
		.arg = io->arg,
		.max = req->capture_max,
		.timeout = req->timeout,
	};
	auto_buf struct buf strings = {0};
	struct channel_end end;

	if (wire_ask_exec(req, &msg, &strings, e) < 0)
		return -1;
	if (req->capture_max && line_spill_of(g))
		msg.flags |= WIRE_EXEC_SPILL;
	if (talk(g, &t, &rules, msg, buf_bytes(&strings), &end, e) < 0 ||
		take_spilled(g, &t, &end, e) < 0)
		return -1;
	wire_told_exit(&end.msg, end.text, ret);
	return 0;
}

/* A request about one path, up to its successful DONE. */
static int path_talk(struct guest *g, struct talk *t, const struct channel_rules *rules,
	struct wire_msg msg, const struct guest_path *at, const char *target,
	struct channel_end *ret, struct err *e)
{
	auto_buf struct buf strings = {0};

	if (wire_ask_path(at, target, &strings, e) < 0 ||
		talk(g, t, rules, msg, buf_bytes(&strings), ret, e) < 0)
		return -1;
	if (ret->msg.code)
		return guest_fail(e, ret->msg.code, at->path, ret->text);
	return 0;
}

static int op_read(struct guest *g, const struct op *op, const struct guest_path *at, uint64_t max,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	const struct channel_rules rules = {.end = WIRE_DONE, .streams = 1 << WIRE_BODY};
	struct wire_msg msg = {.type = WIRE_READ, .max = max};
	struct talk t = {.op = op, .io = io, .sink = io->output, .arg = io->arg, .max = max};
	struct channel_end end;

	if (path_talk(g, &t, &rules, msg, at, NULL, &end, e) < 0)
		return -1;
	*ret = (struct guest_stat){.size = t.got[WIRE_BODY], .mode = end.msg.mode};
	return 0;
}

static int op_write(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	const struct channel_rules rules = {.end = WIRE_DONE, .input = true};
	struct wire_msg msg = {.type = WIRE_WRITE, .mode = req->mode};
	struct talk t = {.op = op, .io = io, .in = io->in, .input = true};
	struct channel_end end;

	msg.flags =
		(req->append ? WIRE_WRITE_APPEND : 0u) | (req->parents ? WIRE_WRITE_PARENTS : 0u);
	if (path_talk(g, &t, &rules, msg, &req->at, NULL, &end, e) < 0)
		return -1;
	*ret = (struct guest_stat){.size = end.msg.size, .mode = end.msg.mode};
	return 0;
}

struct lister {
	struct channel **channel;
	struct wire_lister entries;
};

static int list_sink(void *arg, int stream, struct bytes data, struct err *e)
{
	struct lister *lister = arg;
	int rc = wire_told_entries(&lister->entries, data, e);

	(void)stream;
	return rc <= 0 ? rc
		       : channel_blame(*lister->channel, "a directory entry over the limits", e);
}

static int op_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	const struct channel_rules rules = {.end = WIRE_DONE, .streams = 1 << WIRE_BODY};
	struct lister lister = {.entries = {.each = each, .arg = arg}};
	struct talk t = {.op = op, .sink = list_sink, .arg = &lister};
	struct channel_end end;
	int rc;

	lister.channel = &t.channel;
	rc = path_talk(g, &t, &rules, (struct wire_msg){.type = WIRE_LIST}, at, NULL, &end, e);
	if (rc == 0 && lister.entries.rest.len)
		rc = err_set(e, ERR_UNAVAILABLE, "the guest's list of files was cut short");
	buf_free(&lister.entries.rest);
	return rc;
}

static int op_mkdir(struct guest *g, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e)
{
	const struct channel_rules rules = {.end = WIRE_DONE};
	struct wire_msg msg = {.type = WIRE_MKDIR, .mode = mode};
	struct talk t = {.op = op};
	struct channel_end end;

	return path_talk(g, &t, &rules, msg, at, NULL, &end, e);
}

static int op_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	const struct channel_rules rules = {.end = WIRE_DONE};
	struct wire_msg msg = {.type = WIRE_SYMLINK};
	struct talk t = {.op = op};
	struct channel_end end;

	return path_talk(g, &t, &rules, msg, at, target, &end, e);
}

static bool has_runner(const struct guest *g)
{
	(void)g;
	return true;
}

const struct guest_ops line_ops = {
	.has_runner = has_runner,
	.cut_off = line_fail,
	.is_cut_off = line_failed,
	.stand_still = line_stand_still,
	.let_go = line_let_go,
	.exec = op_exec,
	.read = op_read,
	.write = op_write,
	.list = op_list,
	.mkdir = op_mkdir,
	.symlink = op_symlink,
	.identify = line_identify,
	.free = line_free,
};
