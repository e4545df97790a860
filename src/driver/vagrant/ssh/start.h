/* start.h - starting the runner over an SSH connection. The one thread of moat-ssh. */
#pragma once

#include "driver/vagrant/ssh/conn.h"

/* Puts the runner into the guest, if it is not there, and starts it, as root if sudo lets us.
 * *ret_as_root: whether it can become any user. */
int ssh_conn_start_runner(struct ssh_conn *conn, const struct op *op, int runner_fd,
	bool *ret_as_root, struct err *e);
