/* vagrant-box.h - a sandbox of the Vagrant driver: bringing its machines up, and their snapshots.
 * For vagrant*.c only. */
#pragma once

#include "driver/vagrant.h"
#include "net/forward.h"

struct vagrant_driver {
	struct driver base;
	const struct driver_env *env;
	struct slots startups; /* of all clients together */
	char *lock_dir;
};

struct vagrant_box {
	struct box base;
	struct vagrant_driver *d;
	char id[32];
	struct vagrant_want want;
	struct vagrant_dir dir;
	struct sandbox_spec *spec; /* as it turned out, until the daemon takes it */
	struct vagrant_report *report;
	struct turn whole; /* for what concerns all machines: snapshots */
	struct vagrant_vm *vms[VAGRANT_MACHINES_MAX]; /* while going up in the Vagrantfile's order,
							 then in that of the spec */
	unsigned n_vms;
	struct forwards *forwards;
};

/* vagrant up; connections are made while it still works on the machines. */
int vagrant_box_up(
	struct vagrant_box *b, const struct op *op, const struct box_request *req, struct err *e);
/* Returns when every machine that is for commands answers. */
int vagrant_box_ready(struct vagrant_box *b, const struct op *op, struct err *e);
/* Of all machines. */
int vagrant_box_snapshot(
	struct vagrant_box *b, const struct op *op, const char *name, bool restore, struct err *e);
/* Forwarded ports (vagrant-net.c). For forwards_new; arg is the box. */
int vagrant_net_connect(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e);
/* The names of driver_ops. */
int vagrant_net_show(struct box *box, const struct op *op, json_t **ret, struct err *e);
int vagrant_net_forward(struct box *box, const struct op *op, unsigned vm, unsigned port,
	unsigned host_port, json_t **ret, struct err *e);
int vagrant_net_unforward(struct box *box, const struct op *op, unsigned host_port, struct err *e);
/* What the spec is now that the machines are known; sorts b->vms by it. */
int vagrant_box_spec(struct vagrant_box *b, const struct op *op, const struct sandbox_spec *asked,
	struct err *e);
