#include "guestlink/line/wire-ops.h"

#include <string.h>

#define TIMEOUT_MS_MAX 4000000000u

static void put_string(struct buf *b, const char *s)
{
	if (!s)
		s = "";
	buf_put(b, s, strlen(s) + 1);
}

static void put_strings(struct buf *b, const char *const *list, uint32_t *count)
{
	for (; list && *list; list++, ++*count)
		put_string(b, *list);
}

int wire_ask_exec(
	const struct guest_exec *req, struct wire_msg *ret, struct buf *strings, struct err *e)
{
	struct wire_msg msg = {.type = WIRE_EXEC, .max = req->capture_max};
	double ms = req->timeout * 1000;

	msg.flags = (req->input ? WIRE_EXEC_STDIN : 0u) | (req->tty ? WIRE_EXEC_PTY : 0u) |
		    (req->capture_max ? WIRE_EXEC_CAPTURE : 0u);
	msg.rows = req->tty ? req->rows : 0;
	msg.cols = req->tty ? req->cols : 0;
	if (ms > 0)
		msg.timeout_ms = ms < 1 ? 1 : ms < TIMEOUT_MS_MAX ? (uint32_t)ms : TIMEOUT_MS_MAX;
	put_string(strings, req->user);
	put_string(strings, req->cwd);
	put_strings(strings, req->argv, &msg.count);
	put_strings(strings, req->env, &msg.count2);
	*ret = msg;
	return buf_check(strings, e);
}

int wire_ask_path(
	const struct guest_path *at, const char *target, struct buf *strings, struct err *e)
{
	put_string(strings, at->user);
	put_string(strings, at->cwd);
	put_string(strings, at->path);
	if (target)
		put_string(strings, target);
	return buf_check(strings, e);
}

void wire_told_exit(const struct wire_msg *msg, const char *text, struct guest_exit *ret)
{
	struct guest_exit exit = {0};

	if (msg->how == WIRE_NO_USER)
		guest_not_run(&exit, GUEST_NO_USER, msg->code, text);
	else if (msg->how == WIRE_NO_CWD)
		guest_not_run(&exit, GUEST_NO_CWD, msg->code, text);
	else if (msg->how == WIRE_NO_EXEC)
		guest_not_run(&exit, GUEST_NO_EXEC, msg->code, text);
	else if (msg->how == WIRE_SIGNALED)
		exit.signal = (int)(msg->code & 0x7f);
	else
		exit.code = (int)(msg->code & 0xff);
	if (exit.signal)
		exit.code = 128 + exit.signal;
	if (msg->timed_out) {
		exit.timed_out = true;
		exit.code = 124;
	}
	exit.stdout_bytes = msg->size;
	exit.stderr_bytes = msg->size2;
	*ret = exit;
}

int wire_told_entries(struct wire_lister *lister, struct bytes data, struct err *e)
{
	struct wire_entry entry;
	const uint8_t *p;
	size_t left;
	int got;

	if (buf_add(&lister->rest, data.p, data.len, e) < 0)
		return -1;
	p = buf_data(&lister->rest);
	left = lister->rest.len;
	while ((got = wire_next_entry(&p, &left, &entry)) > 0) {
		struct guest_entry seen = {
			.name = entry.name,
			.target = entry.target,
			.mode = entry.mode,
			.size = entry.size,
			.mtime = entry.mtime,
		};

		if (lister->each(lister->arg, &seen, e) < 0)
			return -1;
	}
	if (got < 0)
		return 1;
	buf_drop(&lister->rest, lister->rest.len - left);
	return 0;
}
