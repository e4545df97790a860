#include "driver/proxmox/guest/agent-transport.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "driver/proxmox/api/wording.h"
#include "guestlink/guest.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/strv.h"

extern const char pve_script_unpack[]; /* scripts/unpack.sh */

/* Input of at most INPUT_SURE bytes always goes into one call with a line for cmd. */
enum { OUTPUT_MAX = 1024 * 1024, RANDOM_BYTES = 8, TRIES = 5, INPUT_SURE = 6000 };

int pve_latin1(const char *p, size_t n, struct buf *ret, struct err *e)
{
	uint8_t *out = buf_room(ret, 2 * n + 1);
	size_t len = 0;

	if (!out)
		return err_oom(e);
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)p[i];

		if (c >= 0x80) {
			out[len++] = (uint8_t)(0xc0 | c >> 6);
			c = (uint8_t)(0x80 | (c & 0x3f));
		}
		out[len++] = c;
	}
	buf_grew(ret, len);
	return 0;
}

static char *latin1_str(const char *p, size_t n, struct err *e)
{
	auto_buf struct buf b = {0};
	char *s = pve_latin1(p, n, &b, e) < 0 ? NULL : buf_take_str(&b);

	if (!s)
		err_oom(e);
	return s;
}

int pve_quote(struct buf *b, const char *const *words, struct err *e)
{
	for (; *words; words++) {
		if (buf_add_str(b, "'", e) < 0)
			return -1;
		for (const char *p = *words; *p; p++)
			if (*p == '\'' ? buf_add_str(b, "'\\''", e) < 0 : buf_add(b, p, 1, e) < 0)
				return -1;
		if (buf_add_str(b, "' ", e) < 0)
			return -1;
	}
	return 0;
}

static int write_parts(struct pve_agent *a, const struct op *op, const char *prefix,
	struct bytes content, unsigned *ret_parts, struct err *e)
{
	unsigned n = 0;

	while (content.len) {
		size_t len = pve_agent_piece(content);
		auto_free char *name = NULL;

		if (str_printf(&name, e, "%s.%u", prefix, n++) < 0 ||
			pve_agent_write(a, op, name, (struct bytes){content.p, len}, e) < 0)
			return -1;
		content.p += len;
		content.len -= len;
	}
	*ret_parts = n;
	return 0;
}

/* The server's call for a command has no parameter for the environment: `env` sets it. */
static int whole_command(const struct qga_exec *req, struct strv *ret, struct err *e)
{
	if (req->env)
		strv_add_all(ret, "/usr/bin/env", "-i", NULL);
	for (const char *const *var = req->env; var && *var; var++)
		strv_add(ret, *var);
	for (const char *const *arg = req->argv; *arg; arg++)
		strv_add(ret, *arg);
	return strv_check(ret, e);
}

/* Starts a command that is too much for one call: its words and its input are put into files. */
static int start_packed(struct pve_agent *a, const struct op *op, const struct strv *command,
	struct bytes input, int64_t *ret_pid, struct err *e)
{
	auto_buf struct buf script = {0};
	char prefix[32], hex[2 * RANDOM_BYTES + 1], path[48], parts[2][16];
	const char *const argv[] = {
		"/bin/sh", "-c", pve_script_unpack, "sh", prefix, parts[0], parts[1], NULL};
	unsigned n[2];

	if (str_random_hex(RANDOM_BYTES, hex, e) < 0)
		return -1;
	snprintf(prefix, sizeof(prefix), "/tmp/moat-%s", hex);
	if (buf_add_str(&script, "set -- ", e) < 0 ||
		pve_quote(&script, (const char *const *)command->v, e) < 0 ||
		buf_add_str(&script, "\n", e) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s.s", prefix);
	if (write_parts(a, op, path, buf_bytes(&script), &n[0], e) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s.i", prefix);
	if (write_parts(a, op, path, input, &n[1], e) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		snprintf(parts[i], sizeof(parts[i]), "%u", n[i]);
	return pve_agent_exec(a, op, argv, NULL, ret_pid, e);
}

/* The size of text in a form: %XX for each byte that is no letter or digit; a byte beyond ASCII
 * becomes two bytes of UTF-8. */
static size_t form_size(const void *text, size_t len)
{
	const unsigned char *p = text;
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += p[i] >= 0x80 ? 6 : isalnum(p[i]) ? 1 : 3;
	return n;
}

static bool fits(const struct strv *command, struct bytes input)
{
	size_t used = sizeof("input-data=") + form_size(input.p, input.len);

	for (size_t i = 0; i < command->n; i++)
		used += sizeof("command=") + form_size(command->v[i], strlen(command->v[i]));
	return used <= PVE_BODY_MAX && input.len <= PVE_INPUT_MAX &&
	       !(input.len && memchr(input.p, 0, input.len));
}

static int start_plain(struct pve_agent *a, const struct op *op, const struct strv *command,
	struct bytes input, int64_t *ret_pid, struct err *e)
{
	auto_strv struct strv argv = {0};
	auto_free char *text = NULL;

	for (size_t i = 0; i < command->n; i++) {
		auto_free char *word = latin1_str(command->v[i], strlen(command->v[i]), e);

		if (!word)
			return -1;
		strv_add(&argv, word);
	}
	if (strv_check(&argv, e) < 0)
		return -1;
	if (input.len && !(text = latin1_str((const char *)input.p, input.len, e)))
		return -1;
	return pve_agent_exec(a, op, (const char *const *)argv.v, text, ret_pid, e);
}

/*
 * Perhaps the program is missing. The agent of a Linux guest says so with quotation marks, at which
 * the server's back end dies: all that we see is its status. Windows has no such marks.
 */
static int no_program(const struct pve_agent_transport *t, const char *name, struct err *e)
{
	char safe[200];

	if (e->sys != PVE_BROKEN_PIPE || t->windows)
		return -1;
	str_escape(name, strlen(name), safe, sizeof(safe));
	return err_set(e, ERR_BACKEND, "the guest agent cannot start %s", safe);
}

static int exec_once(struct pve_agent_transport *t, const struct op *op, const struct strv *command,
	struct bytes input, int64_t *ret_pid, struct err *e)
{
	if (fits(command, input))
		return start_plain(t->agent, op, command, input, ret_pid, e);
	if (t->windows)
		return guest_too_large(e,
			"arguments and input together reach a Windows guest up to %d bytes as a "
			"form, without NUL",
			PVE_BODY_MAX);
	return start_packed(t->agent, op, command, input, ret_pid, e);
}

static int exec_start(
	void *arg, const struct op *op, const struct qga_exec *req, int64_t *ret_pid, struct err *e)
{
	struct pve_agent_transport *t = arg;
	auto_strv struct strv command = {0};
	double pause = 0.1;
	struct err late;

	if (whole_command(req, &command, e) < 0)
		return -1;
	/* Only a call that has done nothing is repeated. */
	for (int tries = 1; exec_once(t, op, &command, req->input, ret_pid, e) < 0; tries++) {
		if (pve_agent_failure(e) != PVE_AGENT_DOWN || tries == TRIES ||
			op_pause(op, pause, &late) < 0)
			return no_program(t, req->argv[0], e);
		pause *= 2;
	}
	return 0;
}

static int exec_wait(void *arg, const struct op *op, int64_t pid, size_t output_max,
	struct qga_exit *ret, struct err *e)
{
	struct pve_agent_transport *t = arg;
	double pause = 0.02;
	unsigned tries = 0;
	int ended;

	(void)output_max; /* the server has a limit of its own, and the caller cuts the output */
	while ((ended = pve_agent_status(t->agent, op, pid, ret, e)) <= 0) {
		enum pve_agent_failure failure = ended < 0 ? pve_agent_failure(e) : PVE_FINAL;

		if (ended < 0 && pve_says_agent_late(e))
			return err_set(e, ERR_LIMIT,
				"the command wrote more than the guest agent hands on; its output "
				"is lost");
		if (ended < 0 && (failure == PVE_FINAL || failure == PVE_NO_PID || ++tries > 5))
			return -1;
		if (op_pause(op, pause, e) < 0)
			return -1;
		pause = pause * 1.5 < 1 ? pause * 1.5 : 1;
	}
	return 0;
}

static int file_write(
	void *arg, const struct op *op, const char *path, struct bytes content, struct err *e)
{
	struct pve_agent_transport *t = arg;
	auto_free char *name = latin1_str(path, strlen(path), e);

	if (!name)
		return -1;
	if (content.len > PVE_WRITE_SURE)
		return err_set(e, ERR_INTERNAL, "%zu bytes are too many for one call", content.len);
	return pve_agent_write(t->agent, op, name, content, e);
}

static int file_read(void *arg, const struct op *op, const char *path, uint64_t from, uint64_t max,
	int (*sink)(void *arg, struct bytes piece, struct err *e), void *sink_arg, struct err *e)
{
	struct pve_agent_transport *t = arg;
	auto_free char *name = latin1_str(path, strlen(path), e);
	uint64_t offset = from;
	int more;

	if (!name)
		return -1;
	do {
		auto_buf struct buf piece = {0};

		more = pve_agent_read(t->agent, op, name, offset, &piece, e);
		if (more < 0)
			return -1;
		offset += piece.len;
		if (max && offset - from > max)
			return err_set(e, ERR_LIMIT, "the file is larger than %llu bytes",
				(unsigned long long)max);
		if (piece.len && sink(sink_arg, buf_bytes(&piece), e) < 0)
			return -1;
		more = more && piece.len;
	} while (more);
	return 0;
}

static const struct qga_transport transport = {
	.output_max = OUTPUT_MAX,
	.input_max = INPUT_SURE,
	.write_max = PVE_WRITE_SURE,
	.exec_start = exec_start,
	.exec_wait = exec_wait,
	.file_write = file_write,
	.file_read = file_read,
};

int pve_agent_transport_open(struct pve_agent_transport *t, struct qga **ret, struct err *e)
{
	return qga_open_transport(&transport, t, ret, e);
}
