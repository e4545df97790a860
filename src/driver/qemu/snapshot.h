/*
 * snapshot.h - snapshots of local sandboxes, and sandboxes that are made from them. The functions
 * of driver_ops with the same names.
 */
#pragma once

#include "driver/driver.h"

int qemu_snapshot(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e);
int qemu_restore(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e);
int qemu_snapshots(
	struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e);
int qemu_snapshot_rm(
	struct driver_sandbox *sandbox, const struct op *op, const char *name, struct err *e);
int qemu_refresh(struct driver_sandbox *sandbox, const struct op *op, struct err *e);
int qemu_create_from(struct driver_sandbox *sandbox, const struct op *op, const char *name,
	const struct sandbox_request *req, struct driver_sandbox **ret, struct err *e);
