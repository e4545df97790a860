#include "driver/qemu/vm/qmp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/thread/inbox.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"

enum {
	QMP_LINE_MAX = 4 * 1024 * 1024,
	QMP_READ = 16 * 1024,
};

/* One call that waits for its answer. Lives on the caller's stack. */
struct waiter {
	json_int_t id;
	struct inbox *answer; /* one message: the reply's line */
	struct waiter *next;
};

struct qmp {
	int fd;
	void (*on_event)(void *arg, const char *name, json_t *data);
	void *arg;
	struct buf in; /* of the thread that reads */

	struct lock mu;
	struct waiter *waiters;
	json_int_t last_id;
	bool failed;
	struct err why;
};

int qmp_new(int fd, void (*on_event)(void *, const char *, json_t *), void *arg, struct qmp **ret,
	struct err *e)
{
	struct qmp *q = calloc(1, sizeof(*q));

	if (!q)
		return err_oom(e);
	q->fd = fd;
	q->on_event = on_event;
	q->arg = arg;
	lock_init(&q->mu, "qmp.mu", LOCK_OUTER);
	*ret = q;
	return 0;
}

void qmp_free(struct qmp *q)
{
	if (!q)
		return;
	buf_free(&q->in);
	lock_done(&q->mu);
	free(q);
}

size_t qmp_next_line(struct bytes in, struct bytes *ret_line)
{
	const uint8_t *end = in.len ? memchr(in.p, '\n', in.len) : NULL;
	size_t len;

	if (!end)
		return 0;
	len = (size_t)(end - in.p);
	*ret_line = (struct bytes){in.p, len && in.p[len - 1] == '\r' ? len - 1 : len};
	return len + 1;
}

static void deliver(struct qmp *q, json_int_t id, struct bytes line)
{
	auto_unlock struct lock *held = lock_take(&q->mu);
	struct err e;

	/* Without memory for its answer a caller would wait for ever. */
	for (struct waiter *w = q->waiters; w; w = w->next)
		if (w->id == id && inbox_put(w->answer, 0, 0, 0, line, &e) < 0)
			inbox_close(w->answer, &e);
}

static int handle_line(struct qmp *q, struct bytes line, struct err *e)
{
	auto_json json_t *msg = NULL;
	const char *event;
	json_t *id;

	if (line.len == 0)
		return 0;
	if (json_parse_object(line, &msg, e) < 0)
		return -1;
	event = json_string_value(json_object_get(msg, "event"));
	id = json_object_get(msg, "id");
	if (event)
		q->on_event(q->arg, event, json_object_get(msg, "data"));
	else if (json_is_integer(id))
		deliver(q, json_integer_value(id), line);
	return 0; /* the greeting, and answers that nobody waits for, are dropped */
}

int qmp_readable(struct qmp *q, struct err *e)
{
	uint8_t *room = buf_room(&q->in, QMP_READ);
	struct bytes line;
	ssize_t got;
	size_t used;

	if (!room)
		return err_oom(e);
	got = read(q->fd, room, QMP_READ);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0)
		return err_set(e, ERR_UNAVAILABLE, "QEMU closed its monitor");
	buf_grew(&q->in, (size_t)got);
	while ((used = qmp_next_line(buf_bytes(&q->in), &line))) {
		if (handle_line(q, line, e) < 0)
			return err_wrap(e, "QEMU's monitor");
		buf_drop(&q->in, used);
	}
	if (q->in.len > QMP_LINE_MAX)
		return err_set(e, ERR_BACKEND, "QEMU's monitor sent a line without end");
	return 0;
}

void qmp_fail(struct qmp *q, const struct err *why)
{
	auto_unlock struct lock *held = lock_take(&q->mu);

	if (q->failed)
		return;
	q->failed = true;
	q->why = *why;
	for (struct waiter *w = q->waiters; w; w = w->next)
		inbox_close(w->answer, why);
}

/* Commands are far smaller than the socket's buffer: if one is not sent whole, QEMU is stuck. */
static int send_line(struct qmp *q, const char *text, size_t len, int pass_fd, struct err *e)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = (void *)text, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (pass_fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass_fd, sizeof(int));
	}
	if (sendmsg(q->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len)
		return err_set(e, ERR_UNAVAILABLE, "QEMU does not read its monitor");
	return 0;
}

static int enlist_and_send(struct qmp *q, struct waiter *w, json_t *msg, int pass_fd, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&q->mu);
	auto_free char *text = NULL;
	auto_buf struct buf line = {0};

	if (q->failed) {
		*e = q->why;
		return -1;
	}
	w->id = ++q->last_id;
	if (json_object_set_new(msg, "id", json_integer(w->id)) < 0)
		return err_oom(e);
	if (json_to_str(msg, &text, e) < 0 || buf_add_str(&line, text, e) < 0 ||
		buf_add_str(&line, "\n", e) < 0)
		return -1;
	if (send_line(q, (char *)buf_data(&line), line.len, pass_fd, e) < 0)
		return -1;
	w->next = q->waiters;
	q->waiters = w;
	return 0;
}

static void delist(struct qmp *q, struct waiter *w)
{
	auto_unlock struct lock *held = lock_take(&q->mu);

	for (struct waiter **at = &q->waiters; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			return;
		}
}

static int read_answer(struct bytes line, const char *command, json_t **ret, struct err *e)
{
	auto_json json_t *msg = NULL;
	json_t *error;
	char said[400];

	if (json_parse_object(line, &msg, e) < 0)
		return -1;
	error = json_object_get(msg, "error");
	if (error) {
		const char *desc = json_string_value(json_object_get(error, "desc"));

		str_escape(desc ? desc : "?", desc ? strlen(desc) : 1, said, sizeof(said));
		return err_set(e, ERR_BACKEND, "QEMU: %s: %s", command, said);
	}
	if (ret)
		*ret = json_incref(json_object_get(msg, "return"));
	return 0;
}

static int wait_answer(
	struct waiter *w, const struct op *op, const char *command, json_t **ret, struct err *e)
{
	struct message message = {0};
	int got, rc;

	while ((got = inbox_take(w->answer, &message, e)) == 0)
		if (op_wait_fd(op, inbox_fd(w->answer), POLLIN, e) < 0)
			return err_wrap(e, "QEMU: %s", command);
	if (got < 0)
		return -1;
	rc = read_answer(buf_bytes(&message.data), command, ret, e);
	buf_free(&message.data);
	return rc;
}

int qmp_call(struct qmp *q, const struct op *op, const char *command, json_t *args, int pass_fd,
	json_t **ret, struct err *e)
{
	auto_json json_t *msg = json_pack("{s:s, s:o*}", "execute", command, "arguments", args);
	auto_inbox struct inbox *answer = NULL;
	struct waiter w = {0};
	int rc;

	if (!msg)
		return err_oom(e);
	if (inbox_new(QMP_LINE_MAX + 2 * QMP_READ, &answer, e) < 0) /* any line that was read */
		return -1;
	w.answer = answer;
	if (enlist_and_send(q, &w, msg, pass_fd, e) < 0)
		return -1;
	rc = wait_answer(&w, op, command, ret, e);
	delist(q, &w);
	return rc;
}
