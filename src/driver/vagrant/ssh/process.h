/*
 * process.h - an SSH connection to a guest, with the runner at its other end (guestlink/line).
 *
 * The connection is a process of its own (driver/vagrant/ssh/ssh.h): the server is the guest,
 * hostile, and libssh can be kept busy for ever by it. Opening and starting is for one thread;
 * dialling, once the runner is started, for any.
 */
#pragma once

#include <stdbool.h>

#include "guestlink/guest.h"
#include "guestlink/runners.h"
#include "driver/vagrant/ssh/ssh.h"

struct ssh_target {
	const char *program; /* path of moat-ssh */
	const char *guard;   /* of moat-helper */
	const struct runners *runners;
	const char *host, *user;
	unsigned port;
	const char *const *keys; /* files with private keys */
	unsigned n_keys;
	/* The host key that the guest must have, as ssh_process_open told earlier; "": any. */
	const char *host_key;
};

struct ssh_process;

/* ret_host_key: what to expect the next time. ERR_UNAVAILABLE: the guest cannot be reached now;
 * with EKEYREJECTED in e->sys: it has another host key, and waiting will not help. */
int ssh_process_open(const struct op *op, const struct ssh_target *to, struct ssh_process **ret,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e);
/* Ends the process, whatever it is doing. NULL is fine. */
void ssh_process_close(struct ssh_process *p);

/*
 * Puts the runner into the guest, if it is not there, and starts it, as root if sudo lets us.
 * *ret_as_root: whether it can become any user. *ret_fd is a stream socket to it, the caller's.
 */
int ssh_process_start_runner(
	const struct op *op, struct ssh_process *p, bool *ret_as_root, int *ret_fd, struct err *e);

/*
 * A connection to a TCP port as the guest sees it, through the same SSH connection. *ret_fd is a
 * stream socket, the caller's; it ends with the process. ERR_UNAVAILABLE with ECONNREFUSED in
 * e->sys: nobody listens there; ERR_UNSUPPORTED: the SSH server does not let us; ERR_LIMIT: there
 * are SSH_DIALS_MAX.
 */
int ssh_process_dial(struct ssh_process *p, const struct op *op, const char *host, unsigned port,
	int *ret_fd, struct err *e);
