#include "driver/vagrant/ssh/conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"

#define TICK 0.5

enum { READ_SIZE = 32 * 1024 };

/* ---- waiting ---- */

int ssh_conn_wait(struct ssh_conn *conn, const struct op *op, struct err *e)
{
	short events =
		ssh_get_poll_flags(conn->session) & SSH_WRITE_PENDING ? POLLIN | POLLOUT : POLLIN;
	struct op tick = op_within(op, TICK);

	if (op_wait_fd(&tick, ssh_get_fd(conn->session), events, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT && now_ns() < op->deadline_ns)
		return 0;
	return -1;
}

int ssh_conn_fail(struct ssh_conn *conn, const char *what, struct err *e)
{
	const char *text = ssh_get_error(conn->session);
	char safe[300];

	str_escape(text, strlen(text), safe, sizeof(safe));
	return err_set(e, ERR_UNAVAILABLE, "%s: %s", what, *safe ? safe : "the connection ended");
}

/* ---- the session ---- */

/* The guest may send requests of its own, such as for channels into this machine. libssh would keep
 * them for a server to take. We are no server, so each is dropped without an answer. */
static int drop_message(ssh_session session, ssh_message message, void *arg)
{
	(void)session;
	(void)message;
	(void)arg;
	return 0;
}

static int set_session(struct ssh_conn *conn, int fd, const struct ssh_login *to, struct err *e)
{
	bool no = false;
	int off = 0;

	conn->session = ssh_new();
	if (!conn->session)
		return err_oom(e);
	/* The configuration of the user's own ssh does not count: no aliases, no known hosts. */
	if (ssh_options_set(conn->session, SSH_OPTIONS_PROCESS_CONFIG, &no) < 0 ||
		/* No file of it is used. libssh would look for it in our user's home, and our user
		 * may be one of whom nobody knows (confine.h). */
		ssh_options_set(conn->session, SSH_OPTIONS_SSH_DIR, "/") < 0 ||
		ssh_options_set(conn->session, SSH_OPTIONS_HOST, to->host) < 0 ||
		ssh_options_set(conn->session, SSH_OPTIONS_USER, to->user) < 0 ||
		ssh_options_set(conn->session, SSH_OPTIONS_PORT, &to->port) < 0 ||
		ssh_options_set(conn->session, SSH_OPTIONS_LOG_VERBOSITY, &off) < 0 ||
		ssh_options_set(conn->session, SSH_OPTIONS_FD, &fd) < 0)
		return ssh_conn_fail(conn, "SSH", e);
	ssh_set_blocking(conn->session, 0);
	ssh_set_message_callback(conn->session, drop_message, NULL);
	return 0;
}

static int shake_hands(struct ssh_conn *conn, const struct op *op, struct err *e)
{
	int rc = SSH_CONN_REPEAT(conn, op, e, ssh_connect(conn->session));

	if (rc == SSH_AGAIN)
		return err_wrap(e, "SSH");
	return rc == SSH_OK ? 0 : ssh_conn_fail(conn, "SSH", e);
}

/* A guest's host key is trusted the first time; after that it must be the same. */
static int check_host_key(struct ssh_conn *conn, const char *expected,
	char ret[static SSH_HOST_KEY_MAX], struct err *e)
{
	unsigned char *hash = NULL;
	size_t len = 0;
	ssh_key key = NULL;
	char *text = NULL;

	if (ssh_get_server_publickey(conn->session, &key) < 0)
		return ssh_conn_fail(conn, "SSH host key", e);
	if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &len) == 0)
		text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, len);
	ssh_clean_pubkey_hash(&hash);
	ssh_key_free(key);
	if (!text)
		return err_oom(e);
	snprintf(ret, SSH_HOST_KEY_MAX, "%s", text);
	ssh_string_free_char(text);
	if (!*expected || strcmp(expected, ret) == 0)
		return 0;
	err_set(e, ERR_UNAVAILABLE, "the SSH host key is %s, it was %s: this is another machine",
		ret, expected);
	e->sys = EKEYREJECTED;
	return -1;
}

/* 1: logged in; 0: the server does not take this key. */
static int try_key(struct ssh_conn *conn, const struct op *op, const char *text, struct err *e)
{
	ssh_key key = NULL;
	int rc;

	if (ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, &key) != SSH_OK)
		return 0;
	while ((rc = ssh_userauth_publickey(conn->session, NULL, key)) == SSH_AUTH_AGAIN)
		if (ssh_conn_wait(conn, op, e) < 0) {
			ssh_key_free(key);
			return -1;
		}
	ssh_key_free(key);
	if (rc == SSH_AUTH_ERROR)
		return ssh_conn_fail(conn, "SSH login", e);
	return rc == SSH_AUTH_SUCCESS;
}

static int log_in(
	struct ssh_conn *conn, const struct op *op, const struct ssh_login *to, struct err *e)
{
	const char *name, *first = NULL, *text;
	json_t *key;
	size_t i;

	json_array_foreach(to->keys, i, key) {
		int in;

		if (json_get(key, "a key", e, "{s:s, s:s}", "name", &name, "text", &text) < 0)
			return -1;
		if (!first)
			first = name;
		in = try_key(conn, op, text, e);
		if (in)
			return in < 0 ? -1 : 0;
	}
	if (!first)
		return err_set(e, ERR_UNSUPPORTED,
			"SSH login of %s: there is no private key (passwords are not supported)",
			to->user);
	return err_set(e, ERR_UNAVAILABLE, "SSH login of %s: the machine does not take the key %s",
		to->user, first);
}

int ssh_conn_open(struct ssh_conn *conn, const struct op *op, int fd, const struct ssh_login *to,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e)
{
	return set_session(conn, fd, to, e) < 0 || shake_hands(conn, op, e) < 0 ||
			       check_host_key(conn, to->host_key, ret_host_key, e) < 0 ||
			       log_in(conn, op, to, e) < 0
		       ? -1
		       : 0;
}

/* ---- channels ---- */

int ssh_conn_channel(struct ssh_conn *conn, const struct op *op, ssh_channel *ret, struct err *e)
{
	ssh_channel c = ssh_channel_new(conn->session);
	int rc;

	if (!c)
		return err_oom(e);
	rc = SSH_CONN_REPEAT(conn, op, e, ssh_channel_open_session(c));
	if (rc == SSH_OK) {
		*ret = c;
		return 0;
	}
	if (rc != SSH_AGAIN)
		ssh_conn_fail(conn, "SSH channel", e);
	ssh_channel_free(c);
	return -1;
}

int ssh_conn_write(
	struct ssh_conn *conn, const struct op *op, ssh_channel c, struct bytes data, struct err *e)
{
	while (data.len) {
		uint32_t piece = data.len < READ_SIZE ? (uint32_t)data.len : READ_SIZE;
		int sent = ssh_channel_write(c, data.p, piece);

		if (sent < 0 && sent != SSH_AGAIN)
			return ssh_conn_fail(conn, "SSH", e);
		if (sent > 0) {
			data.p += sent;
			data.len -= (size_t)sent;
		} else if (ssh_conn_wait(conn, op, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int ssh_conn_read(
	struct ssh_conn *conn, const struct op *op, ssh_channel c, struct buf *b, struct err *e)
{
	for (;;) {
		uint8_t *room = buf_room(b, READ_SIZE);
		int got = room ? ssh_channel_read_nonblocking(c, room, READ_SIZE, 0) : 0;

		if (!room)
			return err_oom(e);
		if (got > 0) {
			buf_grew(b, (size_t)got);
			return 1;
		}
		if (got == SSH_EOF || (got == 0 && ssh_channel_is_eof(c)))
			return 0;
		if (got == SSH_ERROR)
			return ssh_conn_fail(conn, "SSH", e);
		if (ssh_conn_wait(conn, op, e) < 0)
			return -1;
	}
}
