#include "driver/proxmox/guest/agent.h"

#include <string.h>

#include "driver/proxmox/api/wording.h"
#include "util/auto.h"
#include "wire/base64.h"

/* BODY_ROOM: of a call's body, for all that is not content: names, a path, a command. */
enum { TRIES = 5, BODY_ROOM = 1536 };

void pve_agent_init(struct pve_agent *a)
{
	slots_init(&a->calls);
}

void pve_agent_done(struct pve_agent *a)
{
	slots_done(&a->calls);
}

/* Makes one call; at_once: as many may be made at a time for a VM. params is used up. */
static int call_among(struct pve_agent *a, const struct op *op, unsigned at_once,
	const char *method, const char *name, json_t *params, unsigned flags, json_t **ret,
	struct err *e)
{
	int rc;

	if (slots_take(&a->calls, op, at_once, e) < 0) {
		json_decref(params);
		return -1;
	}
	rc = pve_do(a->api, op, method, params, flags, ret, e, "/nodes/%s/qemu/%u/agent/%s",
		a->node, a->vmid, name);
	slots_give(&a->calls);
	if (rc == 0)
		return 0;
	/* These kinds would be taken for a missing file in the guest, or for a mistake of the
	 * client. */
	if (e->kind == ERR_NOT_FOUND)
		e->kind = ERR_UNAVAILABLE;
	else if (e->kind == ERR_PERMISSION || e->kind == ERR_INVALID)
		e->kind = ERR_BACKEND;
	return -1;
}

static int call(struct pve_agent *a, const struct op *op, const char *method, const char *name,
	json_t *params, unsigned flags, json_t **ret, struct err *e)
{
	return call_among(a, op, 1, method, name, params, flags, ret, e);
}

enum pve_agent_failure pve_agent_failure(const struct err *e)
{
	if (e->kind == ERR_TIMEOUT || e->kind == ERR_CANCELLED || e->kind == ERR_LIMIT ||
		e->kind == ERR_INTERNAL)
		return PVE_FINAL;
	if (e->sys == PVE_BROKEN_PIPE)
		return PVE_NO_PROGRAM;
	/* A call waits for a server that is away (api.h), so this one has been for too long. */
	if (e->kind == ERR_UNAVAILABLE && e->sys != 500 && e->sys != 404)
		return e->sys == PVE_NOT_SENT ? PVE_FINAL : PVE_UNSURE;
	if (pve_says_agent_down(e))
		return PVE_AGENT_DOWN;
	if (pve_says_no_process(e))
		return PVE_NO_PID;
	return pve_says_agent_unsure(e) ? PVE_UNSURE : PVE_FINAL;
}

int pve_agent_ping(struct pve_agent *a, const struct op *op, struct err *e)
{
	return call(a, op, "POST", "ping", NULL, PVE_TWICE, NULL, e);
}

int pve_agent_await(struct pve_agent *a, const struct op *op, struct err *e)
{
	double pause = 0.1;
	struct err late;

	while (pve_agent_ping(a, op, e) < 0) {
		if (e->kind == ERR_TIMEOUT || e->kind == ERR_CANCELLED)
			return err_wrap(e, "waiting for the guest agent");
		if (pve_agent_failure(e) == PVE_FINAL)
			return -1;
		if (op_pause(op, pause, &late) < 0) {
			late.kind = late.kind == ERR_TIMEOUT ? ERR_TIMEOUT : ERR_CANCELLED;
			*e = late;
			return err_wrap(e, "waiting for the guest agent");
		}
		pause = pause * 1.5 < 1 ? pause * 1.5 : 1;
	}
	return 0;
}

static json_t *string_array(const char *const *list)
{
	json_t *array = json_array();

	for (; array && *list; list++)
		if (json_array_append_new(array, json_string(*list)) < 0) {
			json_decref(array);
			return NULL;
		}
	return array;
}

int pve_agent_exec(struct pve_agent *a, const struct op *op, const char *const *argv,
	const char *input, int64_t *ret_pid, struct err *e)
{
	auto_json json_t *value = NULL;
	json_t *params = NULL, *pid;

	if (json_make(&params, e, "{s:o, s:s*}", "command", string_array(argv), "input-data",
		    input) < 0 ||
		call(a, op, "POST", "exec", params, 0, &value, e) < 0)
		return -1;
	pid = json_object_get(value, "pid");
	if (!json_is_integer(pid))
		return err_set(e, ERR_UNAVAILABLE, "the guest agent sent no process number");
	*ret_pid = json_integer_value(pid);
	return 0;
}

/* The server sends bytes as the code points U+0000 to U+00FF, in UTF-8. */
static int add_latin1(struct buf *b, const json_t *text, struct err *e)
{
	const char *p = json_string_value(text);
	size_t len = json_string_length(text);
	uint8_t *out;
	size_t n = 0;

	if (!p || !len)
		return 0;
	if (len > 2 * PVE_READ_MAX)
		return err_set(e, ERR_UNAVAILABLE, "the guest agent sent too much");
	out = buf_room(b, len);
	if (!out)
		return err_oom(e);
	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)p[i];

		if (c >= 0x80 && (c & 0xfc) == 0xc0 && i + 1 < len)
			c = (uint8_t)(c << 6 | ((uint8_t)p[++i] & 0x3f));
		else if (c >= 0x80)
			return err_set(e, ERR_UNAVAILABLE, "the guest agent sent no bytes");
		out[n++] = c;
	}
	buf_grew(b, n);
	return 0;
}

/* The server sends flags as booleans, numbers or text: Perl hardly tells them apart. */
static bool is_set(const json_t *flag)
{
	const char *text = json_string_value(flag);

	return json_is_true(flag) || json_integer_value(flag) || (text && strcmp(text, "1") == 0);
}

int pve_parse_status(const json_t *value, struct qga_exit *ret, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};

	if (!json_is_object(value))
		return err_set(e, ERR_UNAVAILABLE, "the guest agent sent no status");
	if (!is_set(json_object_get(value, "exited")))
		return 0;
	qga_set_end(&x, value);
	x.out_cut = is_set(json_object_get(value, "out-truncated"));
	x.err_cut = is_set(json_object_get(value, "err-truncated"));
	if (add_latin1(&x.out, json_object_get(value, "out-data"), e) < 0 ||
		add_latin1(&x.err, json_object_get(value, "err-data"), e) < 0)
		return -1;
	*ret = x;
	x = (struct qga_exit){0};
	return 1;
}

int pve_agent_status(
	struct pve_agent *a, const struct op *op, int64_t pid, struct qga_exit *ret, struct err *e)
{
	auto_json json_t *value = NULL;
	json_t *params = NULL;

	if (json_make(&params, e, "{s:I}", "pid", (json_int_t)pid) < 0 ||
		call(a, op, "GET", "exec-status", params, 0, &value, e) < 0)
		return -1;
	return pve_parse_status(value, ret, e);
}

static int run_once(struct pve_agent *a, const struct op *op, const char *const *argv,
	const char *input, struct qga_exit *ret, struct err *e)
{
	double pause = 0.02;
	int64_t pid;
	int ended;

	if (pve_agent_exec(a, op, argv, input, &pid, e) < 0)
		return -1;
	while ((ended = pve_agent_status(a, op, pid, ret, e)) == 0) {
		if (op_pause(op, pause, e) < 0)
			return -1;
		pause = pause * 1.5 < 1 ? pause * 1.5 : 1;
	}
	return ended < 0 ? -1 : 0;
}

int pve_agent_run(struct pve_agent *a, const struct op *op, const char *const *argv,
	const char *input, struct qga_exit *ret, struct err *e)
{
	double pause = 0.1;
	struct err late;

	for (int tries = 1;; tries++, pause *= 2) {
		enum pve_agent_failure failure;

		if (run_once(a, op, argv, input, ret, e) == 0)
			return 0;
		failure = pve_agent_failure(e);
		if (failure == PVE_FINAL || failure == PVE_NO_PROGRAM || tries == TRIES ||
			op_pause(op, pause, &late) < 0)
			return -1;
	}
}

size_t pve_agent_piece(struct bytes rest)
{
	size_t used = BODY_ROOM, n = 0;

	while (n < rest.len && n < PVE_WRITE_MAX) {
		size_t len = rest.len - n < 3 ? rest.len - n : 3;
		char text[5];

		base64_encode((struct bytes){rest.p + n, len}, text);
		for (const char *c = text; *c; c++)
			used += strchr("+/=", *c) ? 3 : 1;
		if (used > PVE_BODY_MAX)
			break;
		n += len;
	}
	return n;
}

int pve_agent_write(struct pve_agent *a, const struct op *op, const char *path,
	struct bytes content, struct err *e)
{
	auto_free char *text = malloc(base64_len(content.len) + 1);
	double pause = 0.1;
	struct err late;

	if (!text)
		return err_oom(e);
	base64_encode(content, text);
	for (int tries = 1;; tries++, pause *= 2) {
		json_t *params = NULL;

		if (json_make(&params, e, "{s:s, s:s, s:i}", "file", path, "content", text,
			    "encode", 0) < 0)
			return -1;
		if (call(a, op, "POST", "file-write", params, PVE_TWICE, NULL, e) == 0)
			return 0;
		if (pve_agent_failure(e) == PVE_FINAL || tries == TRIES ||
			op_pause(op, pause, &late) < 0)
			return -1;
	}
}

int pve_agent_read(struct pve_agent *a, const struct op *op, const char *path, uint64_t offset,
	struct buf *ret, struct err *e)
{
	double pause = 0.1;
	struct err late;

	for (int tries = 1;; tries++, pause *= 2) {
		auto_json json_t *value = NULL;
		json_t *params = NULL;

		if (json_make(&params, e, "{s:s}", "file", path) < 0)
			return -1;
		if (offset) /* a server before 9.2 does not know it and would refuse it */
			json_object_set_new(params, "offset", json_integer((json_int_t)offset));
		if (call_among(a, op, PVE_READS_AT_ONCE, "GET", "file-read", params, 0, &value,
			    e) == 0) {
			if (add_latin1(ret, json_object_get(value, "content"), e) < 0)
				return -1;
			return is_set(json_object_get(value, "truncated"));
		}
		if (pve_agent_failure(e) == PVE_FINAL || tries == TRIES ||
			op_pause(op, pause, &late) < 0)
			return -1;
	}
}
