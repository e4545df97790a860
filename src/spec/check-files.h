/* check-files.h - checks the files that a spec puts onto disks. Pure. */
#pragma once

#include "spec/spec.h"

int spec_check_files(const struct sandbox_spec *s, struct err *e);
