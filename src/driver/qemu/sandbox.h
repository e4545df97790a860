/* qemu-box.h - one local sandbox, for the files of the driver that make, snapshot and copy them. */
#pragma once

#include "driver/qemu-vm.h"

enum { QEMU_CLEANUP_SECONDS = 30 };

struct qemu_driver {
	struct driver base;
	const struct driver_env *env;
	bool kvm;
	char *root; /* where the boxes' directories are */
};

struct qemu_box {
	struct box base;
	struct qemu_driver *d;
	char id[32];
	char *dir;
	const struct sandbox_spec *spec;
	uint64_t random; /* where the MACs on it come from */
	struct net *net; /* NULL: no NICs, or each on a user-mode network */
	struct qemu_vm *vms;
	size_t n_vms;
	struct turn saving; /* one snapshot at a time */
};

/* A box with a directory and a network, journaled, and VMs that can be started or freed. like
 * (may be NULL): another with the same spec, whose addresses it has. */
int qemu_box_new(struct qemu_driver *d, const struct op *op, const struct box_request *req,
	const struct qemu_box *like, struct qemu_box **ret, struct err *e);
/* All of it is made: what happens to it from now on is not a failed start. */
void qemu_box_keep(struct qemu_box *b);
/* Removes and frees it. */
int qemu_box_remove(struct qemu_box *b, const struct op *op, struct err *e);

/* Snapshots (qemu-snapshot.c); the names of driver_ops. */
int qemu_snapshot(struct box *box, const struct op *op, const char *name, struct err *e);
int qemu_restore(struct box *box, const struct op *op, const char *name, struct err *e);
int qemu_snapshots(struct box *box, const struct op *op, json_t **ret, struct err *e);
int qemu_snapshot_rm(struct box *box, const struct op *op, const char *name, struct err *e);
int qemu_refresh(struct box *box, const struct op *op, struct err *e);
int qemu_create_from(struct box *box, const struct op *op, const char *name,
	const struct box_request *req, struct box **ret, struct err *e);
