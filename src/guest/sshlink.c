#include "guest/sshlink.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/sshlink-parts.h"
#include "util/auto.h"
#include "util/str.h"

#define CONNECT_SECONDS 15.0
#define LOGIN_SECONDS   60.0
#define TICK            0.5

enum { READ_SIZE = 32 * 1024 };

/* ---- waiting ---- */

int sshlink_wait(struct sshlink *l, const struct op *op, struct err *e)
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

int sshlink_fail(struct sshlink *l, const char *what, struct err *e)
{
	const char *words = ssh_get_error(l->session);
	char safe[300];

	str_escape(words, strlen(words), safe, sizeof(safe));
	return err_set(e, ERR_UNAVAILABLE, "%s: %s", what, *safe ? safe : "the connection ended");
}

/* ---- the socket ---- */

static void set_options(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 20}, {IPPROTO_TCP, TCP_KEEPINTVL, 10},
		{IPPROTO_TCP, TCP_KEEPCNT, 6}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 120000}};

	/* A connection without them works, too. */
	for (unsigned i = 0; i < ARRAY_LEN(options); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			    sizeof(int)) < 0)
			continue;
}

static int connect_to(const struct op *op, const struct addrinfo *to, int *ret_fd, struct err *e)
{
	auto_fd int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct op soon = op_within(op, CONNECT_SECONDS);
	socklen_t len = sizeof(int);
	int error = 0;

	if (fd < 0)
		return err_sys(e, errno, "socket");
	set_options(fd);
	if (connect(fd, to->ai_addr, to->ai_addrlen) < 0) {
		if (errno != EINPROGRESS)
			return err_sys(e, errno, "connect");
		if (op_wait_fd(&soon, fd, POLLOUT, e) < 0)
			return -1;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
			return err_sys(e, error ? error : errno, "connect");
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int open_socket(const struct op *op, const struct sshlink_to *to, int *ret, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV},
			*list = NULL;
	char port[16];
	int rc, failed = -1;

	snprintf(port, sizeof(port), "%u", to->port);
	rc = getaddrinfo(to->host, port, &hints, &list);
	if (rc)
		return err_set(e, ERR_UNAVAILABLE, "%s: %s", to->host, gai_strerror(rc));
	for (struct addrinfo *at = list; at && failed < 0; at = at->ai_next)
		failed = connect_to(op, at, ret, e);
	freeaddrinfo(list);
	if (failed == 0)
		return 0;
	if (op_check(op, e) < 0)
		return -1;
	e->kind = ERR_UNAVAILABLE; /* our own deadline for connecting is the guest's fault, too */
	return err_wrap(e, "SSH to %s port %u", to->host, to->port);
}

/* ---- the session ---- */

void sshlink_close(struct sshlink *l)
{
	if (!l)
		return;
	if (l->channel)
		ssh_channel_free(l->channel);
	if (l->session) {
		ssh_disconnect(l->session);
		ssh_free(l->session);
	}
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}
DEFINE_AUTO(auto_sshlinkp, struct sshlink, sshlink_close)
#define auto_sshlink __attribute__((cleanup(auto_sshlinkp)))

/* What the other side asks for of its own accord, channels into this machine for one, would be kept
 * for a server's program to take. Ours is none: it is dropped, unanswered. */
static int drop_message(ssh_session session, ssh_message message, void *arg)
{
	(void)session;
	(void)message;
	(void)arg;
	return 0;
}

static int set_session(struct sshlink *l, const struct sshlink_to *to, struct err *e)
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
		ssh_options_set(l->session, SSH_OPTIONS_FD, &l->fd) < 0)
		return sshlink_fail(l, "SSH", e);
	ssh_set_blocking(l->session, 0);
	ssh_set_message_callback(l->session, drop_message, NULL);
	return 0;
}

static int shake_hands(struct sshlink *l, const struct op *op, struct err *e)
{
	int rc;

	l->fd = -1; /* from here on the session closes it */
	rc = SSHLINK_REPEAT(l, op, e, ssh_connect(l->session));
	if (rc == SSH_AGAIN)
		return err_wrap(e, "SSH");
	return rc == SSH_OK ? 0 : sshlink_fail(l, "SSH", e);
}

/* A guest's key is taken on trust once; after that it is the same machine or none. */
static int check_host_key(struct sshlink *l, const char *expected,
	char ret[static SSHLINK_HOST_KEY_MAX], struct err *e)
{
	unsigned char *hash = NULL;
	size_t len = 0;
	ssh_key key = NULL;
	char *text = NULL;

	if (ssh_get_server_publickey(l->session, &key) < 0)
		return sshlink_fail(l, "SSH host key", e);
	if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &len) == 0)
		text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, len);
	ssh_clean_pubkey_hash(&hash);
	ssh_key_free(key);
	if (!text)
		return err_oom(e);
	snprintf(ret, SSHLINK_HOST_KEY_MAX, "%s", text);
	ssh_string_free_char(text);
	if (!*expected || strcmp(expected, ret) == 0)
		return 0;
	err_set(e, ERR_UNAVAILABLE, "the SSH host key is %s, it was %s: this is another machine",
		ret, expected);
	e->sys = EKEYREJECTED;
	return -1;
}

/* 1: in; 0: the key will not do. */
static int try_key(struct sshlink *l, const struct op *op, const char *file, struct err *e)
{
	ssh_key key = NULL;
	int rc;

	if (ssh_pki_import_privkey_file(file, NULL, NULL, NULL, &key) != SSH_OK)
		return 0;
	while ((rc = ssh_userauth_publickey(l->session, NULL, key)) == SSH_AUTH_AGAIN)
		if (sshlink_wait(l, op, e) < 0) {
			ssh_key_free(key);
			return -1;
		}
	ssh_key_free(key);
	if (rc == SSH_AUTH_ERROR)
		return sshlink_fail(l, "SSH login", e);
	return rc == SSH_AUTH_SUCCESS;
}

static int log_in(
	struct sshlink *l, const struct op *op, const struct sshlink_to *to, struct err *e)
{
	for (unsigned i = 0; i < to->n_keys; i++) {
		int in = try_key(l, op, to->keys[i], e);

		if (in)
			return in < 0 ? -1 : 0;
	}
	if (!to->n_keys)
		return err_set(e, ERR_UNSUPPORTED,
			"SSH login of %s: there is no private key (passwords are not supported)",
			to->user);
	return err_set(e, ERR_UNAVAILABLE, "SSH login of %s: the machine does not take the key %s",
		to->user, to->keys[0]);
}

int sshlink_open(const struct op *op, const struct sshlink_to *to, struct sshlink **ret,
	char ret_host_key[static SSHLINK_HOST_KEY_MAX], struct err *e)
{
	auto_sshlink struct sshlink *l = calloc(1, sizeof(*l));
	struct op login = op_within(op, LOGIN_SECONDS);

	if (!l)
		return err_oom(e);
	l->fd = -1;
	if (open_socket(op, to, &l->fd, e) < 0 || set_session(l, to, e) < 0)
		return -1;
	if (shake_hands(l, &login, e) < 0 || check_host_key(l, to->host_key, ret_host_key, e) < 0 ||
		log_in(l, &login, to, e) < 0) {
		if (e->kind == ERR_TIMEOUT && now_ns() < op->deadline_ns)
			e->kind = ERR_UNAVAILABLE; /* the guest's slowness, not the operation's */
		return -1;
	}
	*ret = take_ptr(&l);
	return 0;
}

/* ---- channels ---- */

int sshlink_channel(struct sshlink *l, const struct op *op, ssh_channel *ret, struct err *e)
{
	ssh_channel c = ssh_channel_new(l->session);
	int rc;

	if (!c)
		return err_oom(e);
	rc = SSHLINK_REPEAT(l, op, e, ssh_channel_open_session(c));
	if (rc == SSH_OK) {
		*ret = c;
		return 0;
	}
	if (rc != SSH_AGAIN)
		sshlink_fail(l, "SSH channel", e);
	ssh_channel_free(c);
	return -1;
}

int sshlink_write(
	struct sshlink *l, const struct op *op, ssh_channel c, struct bytes data, struct err *e)
{
	while (data.len) {
		uint32_t piece = data.len < READ_SIZE ? (uint32_t)data.len : READ_SIZE;
		int sent = ssh_channel_write(c, data.p, piece);

		if (sent < 0 && sent != SSH_AGAIN)
			return sshlink_fail(l, "SSH", e);
		if (sent > 0) {
			data.p += sent;
			data.len -= (size_t)sent;
		} else if (sshlink_wait(l, op, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int sshlink_read(
	struct sshlink *l, const struct op *op, ssh_channel c, struct buf *b, struct err *e)
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
			return sshlink_fail(l, "SSH", e);
		if (sshlink_wait(l, op, e) < 0)
			return -1;
	}
}
