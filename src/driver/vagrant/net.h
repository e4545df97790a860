/* net.h - forwarded ports of Vagrant's machines. Any thread. */
#pragma once

#include "driver/driver.h"
#include "net/holder/forward.h"

/* For forwards_new; arg is the sandbox. */
int vagrant_net_connect(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e);

/* The functions of driver_ops with the same names. */
int vagrant_net_show(
	struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e);
int vagrant_net_forward(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	unsigned port, unsigned host_port, json_t **ret, struct err *e);
int vagrant_net_unforward(
	struct driver_sandbox *sandbox, const struct op *op, unsigned host_port, struct err *e);
