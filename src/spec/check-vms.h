/* check-vms.h - whether the VMs of a spec fit together: names and dependencies. Pure. */
#pragma once

#include "spec/spec.h"

/* s has been through spec_finish(). */
int spec_check_vms(const struct sandbox_spec *s, struct err *e);
