/* commit.h - the disk of a VM becomes an image. The function of driver_ops with the same name. */
#pragma once

#include "driver/driver.h"

int qemu_commit(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	const struct driver_commit *req, struct image **ret, enum commit_state *ret_state,
	struct err *e);
