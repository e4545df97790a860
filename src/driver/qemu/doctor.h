/* doctor.h - what `moat doctor qemu` checks. Any thread. */
#pragma once

#include "driver/driver.h"

int qemu_doctor(const struct driver_env *env, const struct op *op,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
