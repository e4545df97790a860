/* check.h - refuses what the local driver cannot do, before anything is made. Any thread. */
#pragma once

#include "driver/driver.h"

int qemu_check_spec(const struct driver_env *env, const struct sandbox_spec *spec, struct err *e);
