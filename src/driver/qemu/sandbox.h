/* sandbox.h - one local sandbox: making, starting and removing it. By its owner, one at a time. */
#pragma once

#include "driver/qemu/net.h"
#include "driver/qemu/vm/vm.h"

enum { QEMU_CLEANUP_SECONDS = 30 };

struct qemu_driver {
	struct driver base;
	const struct driver_env *env;
	bool kvm;
	char *root; /* where the sandboxes' directories are */
};

struct qemu_sandbox {
	struct driver_sandbox base;
	struct qemu_driver *d;
	char id[32];
	char *dir;
	const struct sandbox_spec *spec;
	uint64_t random;          /* the MACs of its NICs are made of it */
	struct net *net;          /* NULL: it has no NICs, or its NIC is on a user-mode network */
	char lack[QEMU_LACK_MAX]; /* why that, and what does not work then; "": nothing is missing
				   */
	struct qemu_vm *vms;
	size_t n_vms;
	struct turn saving; /* one snapshot at a time */
};

/* Makes a sandbox with a journal entry, a directory and a network, whose VMs can be started or
 * freed. like: another sandbox of the same spec, whose addresses this one gets; NULL: new ones. */
int qemu_sandbox_new(struct qemu_driver *d, const struct op *op, const struct sandbox_request *req,
	const struct qemu_sandbox *like, struct qemu_sandbox **ret, struct err *e);
/* The sandbox is in use from now on: if memory runs out, what is still being made goes first. */
void qemu_sandbox_keep(struct qemu_sandbox *b);
/* Removes and frees it. */
int qemu_sandbox_remove(struct qemu_sandbox *b, const struct op *op, struct err *e);
/* Removes and frees a sandbox that could not be made, even if op has ended. A failure is logged. */
void qemu_sandbox_undo(struct qemu_sandbox *b, const struct op *op);
