/*
 * sshlink.h - an SSH connection to a guest, and the runner (guest/line.h) at its other end.
 *
 * The connection is a process of its own (ssh/ssh.h): the server is the guest, hostile, and libssh
 * can be kept busy for ever by it. Opening and starting is for one thread; dialling, once the
 * runner is started, for any.
 */
#pragma once

#include <stdbool.h>

#include "guest/guest.h"
#include "ssh/ssh.h"

struct sshlink_to {
	const char *program;     /* path of moat-ssh */
	const char *guard;       /* of moat-helper */
	const char *runner_path; /* moat-guest on this host */
	const char *host, *user;
	unsigned port;
	const char *const *keys; /* files with private keys */
	unsigned n_keys;
	/* The host key that it must have, as sshlink_open told earlier; "": whatever it has. */
	const char *host_key;
};

struct sshlink;

/* ret_host_key: what to expect the next time. ERR_UNAVAILABLE: cannot be reached (now); with
 * EKEYREJECTED in e->sys: it has another host key, and waiting will not help. */
int sshlink_open(const struct op *op, const struct sshlink_to *to, struct sshlink **ret,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e);
/* Ends the process, whatever it does. NULL is fine. */
void sshlink_close(struct sshlink *l);

/*
 * Puts the runner into the guest, if it is not there, and starts it, as root if sudo lets us.
 * *ret_as_root: whether it can become any user. *ret_fd is a stream socket to it, the caller's.
 */
int sshlink_start_runner(
	const struct op *op, struct sshlink *l, bool *ret_as_root, int *ret_fd, struct err *e);

/*
 * A connection to a TCP port as the guest sees it, through the same SSH connection. *ret_fd is a
 * stream socket, the caller's; it ends with the link. ERR_UNAVAILABLE with ECONNREFUSED in e->sys:
 * nobody listens there; ERR_UNSUPPORTED: the SSH server does not let us; ERR_LIMIT: there are
 * SSH_DIALS_MAX.
 */
int sshlink_dial(struct sshlink *l, const struct op *op, const char *host, unsigned port,
	int *ret_fd, struct err *e);
