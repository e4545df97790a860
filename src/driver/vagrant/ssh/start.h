/* start.h - starting the runner over an SSH connection. The one thread of moat-ssh. */
#pragma once

#include "driver/vagrant/ssh/conn.h"

/* Puts the runner into the guest, if it is not there, and starts it, as root if sudo lets us.
 * runner_fds: the first of RUNNERS, one after the other; a runner that is not installed is empty.
 * *ret_as_root: whether it can become any user. */
int ssh_conn_start_runner(struct ssh_conn *conn, const struct op *op, int runner_fds,
	bool *ret_as_root, struct err *e);
