/* conn.h - an SSH connection to a guest, by libssh. The one thread of moat-ssh. */
#pragma once

#include <libssh/libssh.h>
#include <libssh/server.h>

#include "driver/vagrant/ssh/ssh.h"
#include "util/json.h"
#include "util/thread/op.h"

struct ssh_conn {
	ssh_session session;
	ssh_channel channel; /* the runner's */
};

struct ssh_login {
	const char *host, *user; /* host: for messages, the socket is connected */
	unsigned port;
	/* The host key that the guest must have, as it was found earlier; "": any. */
	const char *host_key;
	const json_t *keys; /* private keys: objects with "name" and "text" */
};

/* Takes the socket. ERR_UNAVAILABLE: not now; with EKEYREJECTED in e->sys: it has another host key,
 * and waiting will not help. */
int ssh_conn_open(struct ssh_conn *conn, const struct op *op, int fd, const struct ssh_login *to,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e);

/* Waits for the socket, or for a moment: libssh may have work of its own. */
int ssh_conn_wait(struct ssh_conn *conn, const struct op *op, struct err *e);
/* ERR_UNAVAILABLE with libssh's message. */
int ssh_conn_fail(struct ssh_conn *conn, const char *what, struct err *e);
int ssh_conn_channel(struct ssh_conn *conn, const struct op *op, ssh_channel *ret, struct err *e);
/* Repeats a call of libssh as long as it says SSH_AGAIN. */
#define SSH_CONN_REPEAT(conn, op, e, call)                                                         \
	({                                                                                         \
		int rc_;                                                                           \
		while ((rc_ = (call)) == SSH_AGAIN)                                                \
			if (ssh_conn_wait(conn, op, e) < 0)                                        \
				break;                                                             \
		rc_; /* SSH_AGAIN: e is set */                                                     \
	})
int ssh_conn_write(struct ssh_conn *conn, const struct op *op, ssh_channel c, struct bytes data,
	struct err *e);
/* Adds what has come to b, waiting for at least something. 0 at the end of the channel's output. */
int ssh_conn_read(
	struct ssh_conn *conn, const struct op *op, ssh_channel c, struct buf *b, struct err *e);
