/* bridge.h - bytes between an SSH connection and our sockets. The one thread of moat-ssh. */
#pragma once

#include "driver/vagrant/ssh/conn.h"

/* Moves bytes and follows orders to dial until the runner, or whoever gives orders, is gone. */
void bridge_run(struct ssh_conn *conn, const struct op *op, int stream, int orders);
