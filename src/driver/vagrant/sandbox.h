/* sandbox.h - a sandbox of the Vagrant driver: bringing its machines up, and their snapshots. By
 * its owner, one at a time. */
#pragma once

#include "driver/vagrant/vm.h"
#include "net/holder/forward.h"
#include "util/thread/slots.h"
#include "util/thread/turn.h"

struct vagrant_driver {
	struct driver base;
	const struct driver_env *env;
	struct slots startups; /* of all clients together */
	char *lock_dir;
};

struct vagrant_sandbox {
	struct driver_sandbox base;
	struct vagrant_driver *d;
	char id[32];
	struct vagrant_want want;
	struct vagrant_dir dir;
	struct sandbox_spec *spec; /* with the machines that there are, until the daemon takes it */
	struct vagrant_report *report;
	struct turn whole; /* one snapshot at a time: it is of all machines */
	struct vagrant_vm *vms[VAGRANT_MACHINES_MAX]; /* while going up in the Vagrantfile's order,
							 then in that of the spec */
	unsigned n_vms;
	struct forwards *forwards;
};

/* Runs `vagrant up`; connections are made while it still works on the machines. */
int vagrant_sandbox_up(struct vagrant_sandbox *b, const struct op *op,
	const struct sandbox_request *req, struct err *e);
/* Returns when every machine that is for commands answers. */
int vagrant_sandbox_ready(struct vagrant_sandbox *b, const struct op *op, struct err *e);
/* Saves all machines under this name, or restores all of them. */
int vagrant_sandbox_snapshot(struct vagrant_sandbox *b, const struct op *op, const char *name,
	bool restore, struct err *e);
