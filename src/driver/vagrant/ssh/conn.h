/* link.h - an SSH session with a guest, by libssh. */
#pragma once

#include <libssh/libssh.h>
#include <libssh/server.h>

#include "ssh/ssh.h"
#include "util/json.h"
#include "util/op.h"

struct link {
	ssh_session session;
	ssh_channel channel; /* the runner's */
};

struct link_to {
	const char *host, *user; /* host: for messages, the socket is connected */
	unsigned port;
	/* The host key that it must have, as it was told earlier; "": whatever it has. */
	const char *host_key;
	const json_t *keys; /* private keys: objects with "name" and "text" */
};

/* Takes the socket. ERR_UNAVAILABLE: not now; with EKEYREJECTED in e->sys: it has another host key,
 * and waiting will not help. */
int link_open(struct link *l, const struct op *op, int fd, const struct link_to *to,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e);
/* Puts the runner into the guest, if it is not there, and starts it, as root if sudo lets us.
 * *ret_as_root: whether it can become any user. */
int link_start_runner(
	struct link *l, const struct op *op, int runner_fd, bool *ret_as_root, struct err *e);
/* Moves bytes and follows orders to dial until the runner, or whoever gives orders, is gone. */
void link_bridge(struct link *l, const struct op *op, int stream, int orders);

/* Waits for the socket, or a moment: libssh may have something to do of its own. */
int link_wait(struct link *l, const struct op *op, struct err *e);
/* ERR_UNAVAILABLE with libssh's words. */
int link_fail(struct link *l, const char *what, struct err *e);
int link_channel(struct link *l, const struct op *op, ssh_channel *ret, struct err *e);
/* Repeats a request that is to be asked again as long as it says so. */
#define LINK_REPEAT(l, op, e, call)                                                                \
	({                                                                                         \
		int rc_;                                                                           \
		while ((rc_ = (call)) == SSH_AGAIN)                                                \
			if (link_wait(l, op, e) < 0)                                               \
				break;                                                             \
		rc_; /* SSH_AGAIN: e is set */                                                     \
	})
int link_write(
	struct link *l, const struct op *op, ssh_channel c, struct bytes data, struct err *e);
/* Adds what has come to b, waiting for at least something. 0 at the end of the channel's output. */
int link_read(struct link *l, const struct op *op, ssh_channel c, struct buf *b, struct err *e);
