/* qemu-check.h - what the local driver refuses before anything is made. */
#pragma once

#include "driver/driver.h"

int qemu_check_spec(const struct driver_env *env, const struct sandbox_spec *spec, struct err *e);
/* What people call a source: the store's reference for it, or the file that will be imported. */
const char *qemu_source_name(const struct source_spec *s);
