#include "ssh/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"

#define TICK 0.5

enum { READ_SIZE = 32 * 1024 };

/* ---- waiting ---- */

int link_wait(struct link *l, const struct op *op, struct err *e)
{
	short events =
		ssh_get_poll_flags(l->session) & SSH_WRITE_PENDING ? POLLIN | POLLOUT : POLLIN;
	struct op tick = op_within(op, TICK);

	if (op_wait_fd(&tick, ssh_get_fd(l->session), events, e) == 0)
		return 0;
	if (e->kind == ERR_TIMEOUT && now_ns() < op->deadline_ns)
		return 0;
	return -1;
}

int link_fail(struct link *l, const char *what, struct err *e)
{
	const char *words = ssh_get_error(l->session);
	char safe[300];

	str_escape(words, strlen(words), safe, sizeof(safe));
	return err_set(e, ERR_UNAVAILABLE, "%s: %s", what, *safe ? safe : "the connection ended");
}

/* ---- the session ---- */

/* What the other side asks for of its own accord, channels into this machine for one, would be kept
 * for a server's program to take. Ours is none: it is dropped, unanswered. */
static int drop_message(ssh_session session, ssh_message message, void *arg)
{
	(void)session;
	(void)message;
	(void)arg;
	return 0;
}

static int set_session(struct link *l, int fd, const struct link_to *to, struct err *e)
{
	bool no = false;
	int off = 0;

	l->session = ssh_new();
	if (!l->session)
		return err_oom(e);
	/* Nothing of a user's own configuration counts: not the aliases, not the known hosts. */
	if (ssh_options_set(l->session, SSH_OPTIONS_PROCESS_CONFIG, &no) < 0 ||
		ssh_options_set(l->session, SSH_OPTIONS_HOST, to->host) < 0 ||
		ssh_options_set(l->session, SSH_OPTIONS_USER, to->user) < 0 ||
		ssh_options_set(l->session, SSH_OPTIONS_PORT, &to->port) < 0 ||
		ssh_options_set(l->session, SSH_OPTIONS_LOG_VERBOSITY, &off) < 0 ||
		ssh_options_set(l->session, SSH_OPTIONS_FD, &fd) < 0)
		return link_fail(l, "SSH", e);
	ssh_set_blocking(l->session, 0);
	ssh_set_message_callback(l->session, drop_message, NULL);
	return 0;
}

static int shake_hands(struct link *l, const struct op *op, struct err *e)
{
	int rc = LINK_REPEAT(l, op, e, ssh_connect(l->session));

	if (rc == SSH_AGAIN)
		return err_wrap(e, "SSH");
	return rc == SSH_OK ? 0 : link_fail(l, "SSH", e);
}

/* A guest's key is taken on trust once; after that it is the same machine or none. */
static int check_host_key(
	struct link *l, const char *expected, char ret[static SSH_HOST_KEY_MAX], struct err *e)
{
	unsigned char *hash = NULL;
	size_t len = 0;
	ssh_key key = NULL;
	char *text = NULL;

	if (ssh_get_server_publickey(l->session, &key) < 0)
		return link_fail(l, "SSH host key", e);
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

/* 1: in; 0: the key will not do. */
static int try_key(struct link *l, const struct op *op, const char *text, struct err *e)
{
	ssh_key key = NULL;
	int rc;

	if (ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, &key) != SSH_OK)
		return 0;
	while ((rc = ssh_userauth_publickey(l->session, NULL, key)) == SSH_AUTH_AGAIN)
		if (link_wait(l, op, e) < 0) {
			ssh_key_free(key);
			return -1;
		}
	ssh_key_free(key);
	if (rc == SSH_AUTH_ERROR)
		return link_fail(l, "SSH login", e);
	return rc == SSH_AUTH_SUCCESS;
}

static int log_in(struct link *l, const struct op *op, const struct link_to *to, struct err *e)
{
	const char *name, *first = NULL, *text;
	json_t *key;
	size_t i;

	json_array_foreach(to->keys, i, key)
	{
		int in;

		if (json_get(key, "a key", e, "{s:s, s:s}", "name", &name, "text", &text) < 0)
			return -1;
		if (!first)
			first = name;
		in = try_key(l, op, text, e);
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

int link_open(struct link *l, const struct op *op, int fd, const struct link_to *to,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e)
{
	return set_session(l, fd, to, e) < 0 || shake_hands(l, op, e) < 0 ||
			       check_host_key(l, to->host_key, ret_host_key, e) < 0 ||
			       log_in(l, op, to, e) < 0
		       ? -1
		       : 0;
}

/* ---- channels ---- */

int link_channel(struct link *l, const struct op *op, ssh_channel *ret, struct err *e)
{
	ssh_channel c = ssh_channel_new(l->session);
	int rc;

	if (!c)
		return err_oom(e);
	rc = LINK_REPEAT(l, op, e, ssh_channel_open_session(c));
	if (rc == SSH_OK) {
		*ret = c;
		return 0;
	}
	if (rc != SSH_AGAIN)
		link_fail(l, "SSH channel", e);
	ssh_channel_free(c);
	return -1;
}

int link_write(struct link *l, const struct op *op, ssh_channel c, struct bytes data, struct err *e)
{
	while (data.len) {
		uint32_t piece = data.len < READ_SIZE ? (uint32_t)data.len : READ_SIZE;
		int sent = ssh_channel_write(c, data.p, piece);

		if (sent < 0 && sent != SSH_AGAIN)
			return link_fail(l, "SSH", e);
		if (sent > 0) {
			data.p += sent;
			data.len -= (size_t)sent;
		} else if (link_wait(l, op, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int link_read(struct link *l, const struct op *op, ssh_channel c, struct buf *b, struct err *e)
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
			return link_fail(l, "SSH", e);
		if (link_wait(l, op, e) < 0)
			return -1;
	}
}
