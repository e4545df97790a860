/* doctor.h - what `moat doctor vagrant` checks. Any thread. */
#pragma once

#include "driver/driver.h"

int vagrant_doctor(const struct driver_env *env, const struct op *op, const json_t *access,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
