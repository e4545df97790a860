#include "guestlink/agent/qga.h"

#include <string.h>

#include "wire/base64.h"
#include "util/auto.h"

enum {
	WRITE_CHUNK = 192 * 1024, /* bytes before base64, a multiple of 3 */
	READ_CHUNK = 384 * 1024,
};

static json_t *base64_json(struct bytes data)
{
	size_t n = base64_len(data.len);
	auto_free char *text = malloc(n + 1);

	if (!text)
		return NULL;
	base64_encode(data, text);
	return json_stringn_nocheck(text, n);
}

static json_t *string_array(const char *const *list)
{
	json_t *array = json_array();

	for (; array && list && *list; list++)
		if (json_array_append_new(array, json_string(*list)) < 0) {
			json_decref(array);
			array = NULL;
		}
	return array;
}

/* Fails if a string is not UTF-8: JSON cannot hold it. */
static int check_utf8(const char *const *list, struct err *e)
{
	for (; list && *list; list++) {
		auto_json json_t *text = json_string(*list);

		if (!text)
			return err_set(
				e, ERR_UNSUPPORTED, "the guest agent takes only UTF-8 arguments");
	}
	return 0;
}

int qga_exec_start(struct qga *q, const struct op *op, const struct qga_exec *req, int64_t *ret_pid,
	struct err *e)
{
	auto_json json_t *args = NULL, *value = NULL;
	void *arg;
	const struct qga_transport *transport = qga_transport_of(q, &arg);

	if (transport)
		return transport->exec_start(arg, op, req, ret_pid, e);
	if (check_utf8(req->argv, e) < 0 || check_utf8(req->env, e) < 0 ||
		json_make(&args, e, "{s:s, s:o, s:b}", "path", req->argv[0], "arg",
			string_array(req->argv + 1), "capture-output", 1) < 0)
		return -1;
	if (req->env && json_object_set_new(args, "env", string_array(req->env)) < 0)
		return err_oom(e);
	if (req->input.len && json_object_set_new(args, "input-data", base64_json(req->input)) < 0)
		return err_oom(e);
	if (qga_call(q, op, &(struct qga_call){.command = "guest-exec", .args = args}, &value, e) <
		0)
		return -1;
	if (!json_is_integer(json_object_get(value, "pid")))
		return err_set(e, ERR_UNAVAILABLE, "the guest agent sent no process number");
	*ret_pid = json_integer_value(json_object_get(value, "pid"));
	return 0;
}

int qga_exec_wait(struct qga *q, const struct op *op, int64_t pid, size_t output_max,
	struct qga_exit *ret, struct err *e)
{
	auto_json json_t *args = NULL;
	size_t max = output_max < QGA_OUTPUT_MAX ? output_max : QGA_OUTPUT_MAX;
	struct qga_call call = {
		.command = "guest-exec-status",
		.reply_max = 2 * base64_len(max) + 4096,
	};
	double pause = 0.001;
	void *arg;
	const struct qga_transport *transport = qga_transport_of(q, &arg);

	if (transport)
		return transport->exec_wait(arg, op, pid, output_max, ret, e);
	if (json_make(&args, e, "{s:I}", "pid", (json_int_t)pid) < 0)
		return -1;
	call.args = args;
	for (;;) {
		auto_json json_t *value = NULL;
		int ended;

		if (qga_call(q, op, &call, &value, e) < 0)
			return -1;
		ended = qga_parse_status(value, max, ret, e);
		if (ended)
			return ended < 0 ? -1 : 0;
		if (op_pause(op, pause, e) < 0)
			return -1;
		pause = pause * 1.5 < 0.1 ? pause * 1.5 : 0.1;
	}
}

int qga_exec(struct qga *q, const struct op *op, const struct qga_exec *req, struct qga_exit *ret,
	struct err *e)
{
	int64_t pid;

	if (qga_exec_start(q, op, req, &pid, e) < 0)
		return -1;
	return qga_exec_wait(q, op, pid, req->output_max, ret, e);
}

/* ---- files ---- */

static int file_open(struct qga *q, const struct op *op, const char *path, const char *mode,
	json_int_t *ret_handle, struct err *e)
{
	auto_json json_t *args = NULL, *value = NULL;
	const char *const paths[] = {path, NULL};

	if (check_utf8(paths, e) < 0 ||
		json_make(&args, e, "{s:s, s:s}", "path", path, "mode", mode) < 0 ||
		qga_call(q, op, &(struct qga_call){.command = "guest-file-open", .args = args},
			&value, e) < 0)
		return -1;
	if (!json_is_integer(value))
		return err_set(e, ERR_UNAVAILABLE, "the guest agent sent no file number");
	*ret_handle = json_integer_value(value);
	return 0;
}

static int file_close(struct qga *q, const struct op *op, json_int_t handle, struct err *e)
{
	auto_json json_t *args = NULL, *value = NULL;

	if (json_make(&args, e, "{s:I}", "handle", handle) < 0)
		return -1;
	return qga_call(
		q, op, &(struct qga_call){.command = "guest-file-close", .args = args}, &value, e);
}

static void file_close_failed(struct qga *q, json_int_t handle)
{
	struct op op = op_for_cleanup(2);
	struct err e;

	file_close(q, &op, handle,
		&e); /* failures are ignored: the agent has room for many open files */
}

/* Writes a part of the piece; *ret_count is its length. */
static int write_some(struct qga *q, const struct op *op, json_int_t handle, struct bytes piece,
	size_t *ret_count, struct err *e)
{
	auto_json json_t *args = NULL, *value = NULL;
	json_int_t count;

	if (json_make(&args, e, "{s:I, s:o}", "handle", handle, "buf-b64", base64_json(piece)) < 0)
		return -1;
	if (qga_call(q, op, &(struct qga_call){.command = "guest-file-write", .args = args}, &value,
		    e) < 0)
		return -1;
	count = json_integer_value(json_object_get(value, "count"));
	if (count <= 0 || (size_t)count > piece.len)
		return err_set(e, ERR_UNAVAILABLE, "the guest agent wrote an impossible count");
	*ret_count = (size_t)count;
	return 0;
}

int qga_file_write(
	struct qga *q, const struct op *op, const char *path, struct bytes content, struct err *e)
{
	json_int_t handle;
	void *arg;
	const struct qga_transport *transport = qga_transport_of(q, &arg);

	if (transport)
		return transport->file_write(arg, op, path, content, e);
	if (file_open(q, op, path, "w", &handle, e) < 0)
		return -1;
	while (content.len) {
		size_t n = content.len < WRITE_CHUNK ? content.len : WRITE_CHUNK;

		if (write_some(q, op, handle, (struct bytes){content.p, n}, &n, e) < 0) {
			file_close_failed(q, handle);
			return -1;
		}
		content.p += n;
		content.len -= n;
	}
	return file_close(q, op, handle, e);
}

static int file_seek(
	struct qga *q, const struct op *op, json_int_t handle, uint64_t to, struct err *e)
{
	auto_json json_t *args = NULL, *value = NULL;

	if (json_make(&args, e, "{s:I, s:I, s:s}", "handle", handle, "offset", (json_int_t)to,
		    "whence", "set") < 0)
		return -1;
	return qga_call(
		q, op, &(struct qga_call){.command = "guest-file-seek", .args = args}, &value, e);
}

/* Returns 1 if more may come, 0 at the end of the file. */
static int read_some(
	struct qga *q, const struct op *op, json_int_t handle, struct buf *ret, struct err *e)
{
	auto_json json_t *args = NULL, *value = NULL;
	struct qga_call call = {
		.command = "guest-file-read",
		.reply_max = base64_len(READ_CHUNK) + 4096,
	};
	json_t *text;

	if (json_make(&args, e, "{s:I, s:i}", "handle", handle, "count", READ_CHUNK) < 0)
		return -1;
	call.args = args;
	if (qga_call(q, op, &call, &value, e) < 0)
		return -1;
	text = json_object_get(value, "buf-b64");
	if (!json_is_string(text) ||
		!base64_decode(json_string_value(text), json_string_length(text), ret))
		return err_set(e, ERR_UNAVAILABLE, "the guest agent sent no file content");
	return !json_is_true(json_object_get(value, "eof")) && ret->len > 0;
}

int qga_file_read(struct qga *q, const struct op *op, const char *path, uint64_t from, uint64_t max,
	int (*sink)(void *arg, struct bytes piece, struct err *e), void *arg, struct err *e)
{
	json_int_t handle;
	uint64_t total = 0;
	int more = 1;
	void *transport_arg;
	const struct qga_transport *transport = qga_transport_of(q, &transport_arg);

	if (transport)
		return transport->file_read(transport_arg, op, path, from, max, sink, arg, e);
	if (file_open(q, op, path, "r", &handle, e) < 0)
		return -1;
	if (from && file_seek(q, op, handle, from, e) < 0)
		more = -1;
	while (more > 0) {
		auto_buf struct buf piece = {0};

		more = read_some(q, op, handle, &piece, e);
		total += piece.len;
		if (more >= 0 && max && total > max)
			more = err_set(e, ERR_LIMIT, "the file is larger than %llu bytes",
				(unsigned long long)max);
		if (more >= 0 && piece.len && sink(arg, buf_bytes(&piece), e) < 0)
			more = -1;
	}
	if (more < 0) {
		file_close_failed(q, handle);
		return -1;
	}
	return file_close(q, op, handle, e);
}
