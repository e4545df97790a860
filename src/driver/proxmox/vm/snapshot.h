/* snapshot.h - snapshots with memory, of one VM or of all VMs of a sandbox; see driver.h. */
#pragma once

#include "driver/driver.h"

int pve_snapshot(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e);
int pve_restore(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e);
/* Those that the server has of the sandbox's VMs, each name once. */
int pve_snapshots(struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e);
int pve_snapshot_vm(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	const char *name, struct err *e);
int pve_restore_vm(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	const char *name, struct err *e);
