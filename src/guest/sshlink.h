/*
 * sshlink.h - an SSH connection to a guest, and the runner (guest/line.h) at its other end.
 *
 * A connection is used by one thread at a time, through its op: the one that opens it and starts
 * the runner. Then a thread of its own, the bridge, takes it over and moves bytes between the
 * runner's channel and a socket, on which the line works like on any other; and likewise between
 * other channels and sockets, for connections to ports of the guest. The server is the guest:
 * hostile.
 */
#pragma once

#include <stdbool.h>

#include "guest/guest.h"

enum { SSHLINK_HOST_KEY_MAX = 128 };

struct sshlink_to {
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
	char ret_host_key[static SSHLINK_HOST_KEY_MAX], struct err *e);
void sshlink_close(struct sshlink *l); /* NULL is fine */

/*
 * Puts the runner into the guest, if it is not there, and starts it, as root if sudo lets us.
 * runner_path: moat-guest on this host. *ret_as_root: whether it can become any user.
 */
int sshlink_start_runner(const struct op *op, struct sshlink *l, const char *runner_path,
	bool *ret_as_root, struct err *e);

struct sshlink_bridge;
/* After sshlink_start_runner: takes *l. *ret_fd is a stream socket to the runner, the caller's. */
int sshlink_bridge(struct sshlink **l, struct sshlink_bridge **ret, int *ret_fd, struct err *e);
/*
 * A connection to a TCP port as the guest sees it, through the same SSH connection. Any thread,
 * while the bridge is there. *ret_fd is a stream socket, the caller's; it ends with the bridge.
 * ERR_UNAVAILABLE with ECONNREFUSED in e->sys: nobody listens there; ERR_UNSUPPORTED: the SSH
 * server does not let us.
 */
enum { SSHLINK_DIALS_MAX = 256 }; /* at a time; more are ERR_LIMIT */
int sshlink_dial(struct sshlink_bridge *b, const struct op *op, const char *host, unsigned port,
	int *ret_fd, struct err *e);
/* Ends the connection; waits for no more than the thread's own end. NULL is fine. */
void sshlink_bridge_free(struct sshlink_bridge *b);
