/*
 * How it works: one command is run in the guest. It looks for a runner of this version and, if
 * there is none, names a file, waits until we have written it by SFTP and moves it to where it
 * stays. Then it becomes the runner, on the same channel.
 */
#include "driver/vagrant/ssh/start.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"
#include "driver/vagrant/ssh/sftp.h"
#include "guestlink/runners.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

enum {
	RUNNER_SIZE_MAX = 8 * 1024 * 1024,
	CHATTER_MAX = 256 * 1024, /* what a login may print before our command runs */
};

/* login.line.sh and start-runner.line.sh, in single quotes for whatever shell the user has. */
extern const char ssh_script_login[], ssh_script_start_runner[];

/* ---- SFTP ---- */

struct upload {
	struct ssh_conn *conn;
	const struct op *op;
	ssh_channel channel;
	struct buf in;
	uint32_t next_id;
};

static void upload_free(struct upload *u)
{
	if (u->channel)
		ssh_channel_free(u->channel);
	buf_free(&u->in);
}

static int send_all(struct upload *u, struct buf *b, struct err *e)
{
	int rc = ssh_conn_write(u->conn, u->op, u->channel, buf_bytes(b), e);

	buf_drop(b, b->len);
	return rc;
}

/* The next reply; *ret_size bytes of u->in are it, to be dropped after use. */
static int next_reply(struct upload *u, struct sftp_reply *ret, size_t *ret_size, struct err *e)
{
	for (;;) {
		long size = sftp_reply_parse(buf_bytes(&u->in), ret);
		int more;

		if (size > 0) {
			*ret_size = (size_t)size;
			return 0;
		}
		if (size < 0)
			return err_set(e, ERR_UNAVAILABLE, "SFTP: the guest sent nonsense");
		more = ssh_conn_read(u->conn, u->op, u->channel, &u->in, e);
		if (more < 0)
			return -1;
		if (more == 0)
			return err_set(e, ERR_UNSUPPORTED, "SFTP: the guest's SSH server has none");
	}
}

static int expect_ok(struct upload *u, struct err *e)
{
	struct sftp_reply r;
	char text[200];
	size_t size;

	if (next_reply(u, &r, &size, e) < 0)
		return -1;
	if (r.type != SFTP_IS_STATUS || r.code != 0) {
		str_escape((const char *)r.text.p, r.type == SFTP_IS_STATUS ? r.text.len : 0, text,
			sizeof(text));
		return err_set(
			e, ERR_UNSUPPORTED, "SFTP: the guest says: %s", *text ? text : "failure");
	}
	buf_drop(&u->in, size);
	return 0;
}

static int open_file(struct upload *u, const char *path, uint8_t handle[SFTP_HANDLE_MAX],
	size_t *ret_len, struct err *e)
{
	auto_buf struct buf out = {0};
	struct sftp_reply r;
	size_t size;

	if (sftp_put_init(&out, e) < 0 || sftp_put_open(&out, ++u->next_id, path, 0700, e) < 0 ||
		send_all(u, &out, e) < 0 || next_reply(u, &r, &size, e) < 0)
		return -1;
	if (r.type != SFTP_IS_VERSION)
		return err_set(e, ERR_UNAVAILABLE, "SFTP: the guest did not greet");
	buf_drop(&u->in, size);
	if (next_reply(u, &r, &size, e) < 0)
		return -1;
	if (r.type != SFTP_IS_HANDLE)
		return err_set(e, ERR_UNSUPPORTED, "SFTP: the guest does not open a file for us");
	memcpy(handle, r.text.p, r.text.len);
	*ret_len = r.text.len;
	buf_drop(&u->in, size);
	return 0;
}

static int send_file(struct upload *u, const char *path, struct bytes content, struct err *e)
{
	uint8_t name[SFTP_HANDLE_MAX];
	auto_buf struct buf out = {0};
	struct bytes handle = {.p = name};
	unsigned pieces = 0;

	if (open_file(u, path, name, &handle.len, e) < 0)
		return -1;
	for (size_t at = 0; at < content.len; at += SFTP_PIECE, pieces++) {
		struct bytes piece = {content.p + at, content.len - at};

		if (piece.len > SFTP_PIECE)
			piece.len = SFTP_PIECE;
		if (sftp_put_write(&out, ++u->next_id, handle, at, piece, e) < 0 ||
			send_all(u, &out, e) < 0)
			return -1;
	}
	if (sftp_put_close(&out, ++u->next_id, handle, e) < 0 || send_all(u, &out, e) < 0)
		return -1;
	for (unsigned i = 0; i < pieces + 1; i++)
		if (expect_ok(u, e) < 0)
			return -1;
	return 0;
}

static int put(struct ssh_conn *conn, const struct op *op, const char *path, struct bytes content,
	struct err *e)
{
	__attribute__((cleanup(upload_free))) struct upload u = {.conn = conn, .op = op};
	int rc;

	if (ssh_conn_channel(conn, op, &u.channel, e) < 0)
		return -1;
	rc = SSH_CONN_REPEAT(conn, op, e, ssh_channel_request_subsystem(u.channel, "sftp"));
	if (rc == SSH_AGAIN)
		return -1;
	if (rc != SSH_OK)
		return err_set(e, ERR_UNSUPPORTED, "SFTP: the guest's SSH server has none");
	return send_file(&u, path, content, e);
}

/* ---- the runner ---- */

/* The next line of our command, without its "moat:". What the login itself prints is skipped. */
static int next_word(struct ssh_conn *conn, const struct op *op, struct buf *in, char *word,
	size_t size, struct err *e)
{
	size_t skipped = 0;

	for (;;) {
		uint8_t *end = in->len ? memchr(buf_data(in), '\n', in->len) : NULL;
		int more;

		if (end) {
			const char *line = (const char *)buf_data(in);
			size_t len = (size_t)(end - buf_data(in));
			bool ours = len > 5 && memcmp(line, "moat:", 5) == 0;

			if (ours)
				str_escape(line + 5, len - 5, word, size);
			skipped += len + 1;
			buf_drop(in, len + 1);
			if (ours)
				return 0;
			continue;
		}
		if (skipped + in->len > CHATTER_MAX)
			return err_set(e, ERR_UNAVAILABLE, "the guest's login prints too much");
		more = ssh_conn_read(conn, op, conn->channel, in, e);
		if (more < 0)
			return -1;
		if (more == 0)
			return err_set(e, ERR_UNSUPPORTED,
				"the guest ended our command without a word; has it a POSIX "
				"shell?");
	}
}

/* Sends the line that the command waits for. */
static int let_go(struct ssh_conn *conn, const struct op *op, struct err *e)
{
	static const uint8_t go[] = "go\n";

	return ssh_conn_write(conn, op, conn->channel, (struct bytes){go, sizeof(go) - 1}, e);
}

static int read_runner(int runner_fds, const char *arch, struct buf *ret, struct err *e)
{
	for (int i = 0; i < RUNNERS; i++)
		if (strcmp(arch, runner_arch[i]) == 0 &&
			file_read_all(runner_fds + i, RUNNER_SIZE_MAX, ret, e) < 0)
			return -1;
	return ret->len ? 0 : runners_lack(arch, e);
}

/* where: "ARCH:FILE", by the guest. */
static int upload_runner(
	struct ssh_conn *conn, const struct op *op, int runner_fds, char *where, struct err *e)
{
	auto_buf struct buf content = {0};
	char *file = strchr(where, ':');

	if (!file || file[1] != '/')
		return err_set(e, ERR_UNAVAILABLE, "the guest named no file for the runner");
	*file++ = 0;
	if (read_runner(runner_fds, where, &content, e) < 0)
		return -1;
	op_progress(op, 0, 0, "installing the runner in the guest");
	if (put(conn, op, file, buf_bytes(&content), e) < 0)
		return -1;
	return let_go(conn, op, e);
}

static int start(struct ssh_conn *conn, const struct op *op, int runner_fds, bool *ret_as_root,
	struct err *e)
{
	auto_buf struct buf in = {0};
	auto_free char *command = NULL;
	char word[1024];
	int rc;

	static_assert(WIRE_VERSION == 2, "the version line below");
	if (str_printf(&command, e,
		    "exec sh -c '%s' sh 'v=\"moat-guest " MOAT_VERSION " wire 2\"; %s'",
		    ssh_script_login, ssh_script_start_runner) < 0 ||
		ssh_conn_channel(conn, op, &conn->channel, e) < 0)
		return -1;
	rc = SSH_CONN_REPEAT(conn, op, e, ssh_channel_request_exec(conn->channel, command));
	if (rc != SSH_OK)
		return rc == SSH_AGAIN ? -1 : ssh_conn_fail(conn, "SSH command", e);
	if (next_word(conn, op, &in, word, sizeof(word), e) < 0)
		return -1;
	if (strcmp(word, "nosudo") == 0 &&
		(let_go(conn, op, e) < 0 || next_word(conn, op, &in, word, sizeof(word), e) < 0))
		return -1;
	if (str_starts(word, "put:") &&
		(upload_runner(conn, op, runner_fds, word + 4, e) < 0 ||
			next_word(conn, op, &in, word, sizeof(word), e) < 0))
		return -1;
	if (str_starts(word, "no:"))
		return err_set(e, ERR_UNSUPPORTED, "%s", word + 3);
	if (!str_starts(word, "run:"))
		return err_set(e, ERR_UNAVAILABLE, "the guest answered with nonsense");
	*ret_as_root = strcmp(word, "run:root") == 0;
	/* The runner says nothing before it is greeted: no byte of it is in our buffer. */
	return 0;
}

int ssh_conn_start_runner(struct ssh_conn *conn, const struct op *op, int runner_fds,
	bool *ret_as_root, struct err *e)
{
	if (start(conn, op, runner_fds, ret_as_root, e) < 0)
		return err_wrap(e, "the runner");
	return 0;
}
